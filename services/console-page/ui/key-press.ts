/** Whether the page's shortcuts must ignore a key press, because it is for the browser, a text field or a dialog. */
export function isNotForPage({ ctrlKey, metaKey, altKey, target }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || document.querySelector("dialog[open]") !== null) return true;
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select");
}
