export type Address = `0x${string}`;

export const ZERO_ADDRESS: Address = `0x${"0".repeat(40)}`;

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;

/** Whether the text is 0x and 40 hex digits, in upper or lower case. */
export function isAddress(text: string): text is Address {
  return ADDRESS.test(text);
}
