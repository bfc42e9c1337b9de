/** A write of more bytes is large. It goes over a connection of its own, so that small ones need not wait behind it. */
const LARGE_BYTES = 256 * 1024;
const BYTES_PER_SECOND = 2 * 1024 * 1024;

export function isLarge(bytes: number): boolean {
  return bytes > LARGE_BYTES;
}

/**
 * How much longer than a small write one of so many bytes may take: a second for each 2 MiB. Half of it is for those before
 * it, the other half for the write itself (`ownMs`).
 */
export function extraMs(bytes: number): number {
  return isLarge(bytes) ? Math.ceil((bytes * 1000) / BYTES_PER_SECOND) : 0;
}

/** A large write does not begin with less time left. */
export function ownMs(bytes: number): number {
  return extraMs(bytes) / 2;
}
