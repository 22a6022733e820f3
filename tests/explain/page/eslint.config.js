// The rules of the page's JavaScript: those of ESLint that find mistakes, and the house's way to write.
const browser = "document window location history navigator performance console innerWidth innerHeight scrollTo setTimeout clearTimeout "
  + "requestAnimationFrame getComputedStyle matchMedia Blob URL URLSearchParams Worker Response DecompressionStream TextDecoder TextEncoder "
  + "XMLSerializer DOMParser Image Node IntersectionObserver ResizeObserver atob btoa self globalThis structuredClone "
  + "AbortController AbortSignal DOMException MessageChannel ReadableStream WebAssembly "
  + "FormData TextDecoderStream fetch getSelection localStorage";

export default [{
  files: ["**/*.js"],
  languageOptions: { ecmaVersion: 2025, sourceType: "module", globals: Object.fromEntries(browser.split(" ").map((name) => [name, "readonly"])) },
  linterOptions: { reportUnusedDisableDirectives: "error" },
  rules: {
    "one-var": ["error", { initialized: "never" }],
    "max-len": ["error", { code: 118, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true }],
    ...Object.fromEntries([
      "constructor-super", "for-direction", "getter-return", "no-async-promise-executor", "no-case-declarations", "no-class-assign", "no-compare-neg-zero",
      "no-cond-assign", "no-const-assign", "no-constant-condition", "no-debugger", "no-delete-var", "no-dupe-args", "no-dupe-class-members", "no-dupe-else-if",
      "no-dupe-keys", "no-duplicate-case", "no-duplicate-imports", "no-empty-pattern", "no-eval", "no-fallthrough", "no-func-assign", "no-global-assign",
      "no-implied-eval", "no-import-assign", "no-irregular-whitespace", "no-loss-of-precision", "no-new-func", "no-prototype-builtins", "no-redeclare",
      "no-self-assign", "no-self-compare", "no-setter-return", "no-shadow-restricted-names", "no-sparse-arrays", "no-this-before-super", "no-undef",
      "no-unreachable", "no-unsafe-finally", "no-unsafe-negation", "no-unused-labels", "no-unused-vars", "no-useless-catch", "no-useless-escape", "no-var",
      "no-with", "prefer-const", "require-yield", "use-isnan", "valid-typeof", "eqeqeq",
    ].map((rule) => [rule, "error"])),
  },
}];
