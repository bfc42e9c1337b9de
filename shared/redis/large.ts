/**
 * Maximum size of a small write. A larger write is sent on a connection of its own, so that small writes need not wait until
 * it is sent.
 */
const LARGE_BYTES = 256 * 1024;
const BYTES_PER_SECOND = 2 * 1024 * 1024;

export function isLarge(bytes: number): boolean {
  return bytes > LARGE_BYTES;
}

/**
 * Returns the time that a write of this size gets in addition to the usual deadline: a second for each 2 MiB. Half of this
 * time is for other large writes that run first, and half for the write itself (`ownMs`).
 */
export function extraMs(bytes: number): number {
  return isLarge(bytes) ? Math.ceil((bytes * 1000) / BYTES_PER_SECOND) : 0;
}

/**
 * Returns the minimum time that a write of this size needs for itself. If less time is left until its deadline, it is not
 * begun.
 */
export function ownMs(bytes: number): number {
  return extraMs(bytes) / 2;
}
