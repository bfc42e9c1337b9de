/** Whether the key is the browser's, or for what is being written, or for a dialog. */
export function isElsewhere({ ctrlKey, metaKey, altKey, target }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || document.querySelector("dialog[open]") !== null) return true;
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select");
}
