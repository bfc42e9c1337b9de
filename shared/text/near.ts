/**
 * How two different texts are one slip of the hand apart: a letter added, left out or replaced, or two neighbours that
 * changed places. Undefined if they are further apart.
 */
export function slipBetween(
  a: string,
  b: string,
): "one letter" | "two letters that changed places" | undefined {
  const most = Math.max(a.length, b.length);
  const least = Math.min(a.length, b.length);
  let before = 0;
  while (before < least && a[before] === b[before]) before += 1;
  let after = 0;
  while (after < least - before && a[a.length - 1 - after] === b[b.length - 1 - after]) after += 1;
  const differ = most - before - after;
  if (differ <= 1) return "one letter";
  const isSwap = most === least && differ === 2 && a[before] === b[before + 1] && a[before + 1] === b[before];
  return isSwap ? "two letters that changed places" : undefined;
}
