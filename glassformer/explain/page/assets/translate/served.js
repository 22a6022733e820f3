// @ts-check
/** The page of a server. */
import { element } from "../drawing/element.js";
import { openServerEngine } from "./server_engine.js";
import { TranslateView } from "./view.js";

async function start() {
  const root = /** @type {HTMLElement} */ (document.getElementById("translate"));
  try {
    const view = new TranslateView(root, await openServerEngine(new URL(".", location.href).href));
    /** @type {any} */ (window).translateView = view;
  } catch (error) {
    const again = element("button", { onclick: () => location.reload() }, "Try again");
    root.replaceChildren(element("div.trouble", { role: "alert" }, /** @type {Error} */ (error).message, " ", again));
  }
}

start();
