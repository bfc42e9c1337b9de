/** Maximum size of a small write. A larger one uses its own connection, so that small writes need not wait for it. */
const LARGE_BYTES = 256 * 1024;
const BYTES_PER_SECOND = 2 * 1024 * 1024;

export function isLarge(bytes: number): boolean {
  return bytes > LARGE_BYTES;
}

/**
 * Returns the additional time for a write of this size: a second for each 2 MiB. Half of this time is for other writes
 * that run first, and half for the write itself (`ownMs`).
 */
export function extraMs(bytes: number): number {
  return isLarge(bytes) ? Math.ceil((bytes * 1000) / BYTES_PER_SECOND) : 0;
}

/** Returns the minimum time that a large write needs. With less time left, it does not begin. */
export function ownMs(bytes: number): number {
  return extraMs(bytes) / 2;
}
