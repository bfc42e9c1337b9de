/** Share of the memory for new calls that all unsettled payments together may use. */
const UNSETTLED_PART = 0.25;

/** Share of the memory for unsettled payments that one client address may use at most (usage.lua). */
const ADDRESS_PART = 1 / 8;

/** The gateway's limits on the memory for new calls. */
type Limits = { queueBytesMax: number; redisMemoryRatioMax: number };

/**
 * Returns the limit on the bytes of all unsettled payments of a partition. `maxMemoryBytes` is 0 if Redis has no `maxmemory`.
 */
export function unsettledBytesMaxOf(
  { queueBytesMax, redisMemoryRatioMax }: Limits,
  maxMemoryBytes: number,
): number {
  const memory = maxMemoryBytes === 0 ? Number.POSITIVE_INFINITY : redisMemoryRatioMax * maxMemoryBytes;
  return Math.floor(UNSETTLED_PART * Math.min(queueBytesMax, memory));
}

/** Returns the smallest `queueBytesMax` with which a partition can accept a payment of this many bytes. */
export function queueBytesMinOf(bytes: number, partitions: number): number {
  return (partitions * bytes) / (UNSETTLED_PART * ADDRESS_PART);
}
