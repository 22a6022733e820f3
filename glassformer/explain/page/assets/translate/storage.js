// @ts-check
/** What stays in this browser and nowhere else. Where a browser keeps nothing, nothing is remembered. */

const PREFIX = "glassformer.";

/** @template T @param {string} name @param {T} otherwise @returns {T} */
export function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Null forgets. @param {string} name @param {unknown} value */
export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    /* full, or forbidden */
  }
}

/** A button by which a text is saved as a file. @param {string} name @param {BlobPart} content */
export function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
