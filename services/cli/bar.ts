const BAR_CELLS = 30;

/** Draws a progress bar such as `[######........]`, followed by the percentage. `share` is the completed part, from 0 to 1. */
export function barOf(share: number): string {
  const part = Math.min(1, Math.max(0, share));
  const full = Math.floor(part * BAR_CELLS);
  return `[${"#".repeat(full)}${".".repeat(BAR_CELLS - full)}] ${Math.floor(part * 100)} %`;
}
