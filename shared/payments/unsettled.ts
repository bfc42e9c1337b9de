/** All unsettled payments together may take this part of what new calls may use. */
const UNSETTLED_PART = 0.25;

/** One address may take this part of that (usage.lua). */
const ADDRESS_PART = 1 / 8;

/** The limits of a gateway that bound what new calls may use. */
type Limits = { queueBytesMax: number; redisMemoryRatioMax: number };

/** Limit on the bytes of all unsettled payments of a partition. `maxMemoryBytes` is 0 if Redis has no `maxmemory`. */
export function unsettledBytesMaxOf(
  { queueBytesMax, redisMemoryRatioMax }: Limits,
  maxMemoryBytes: number,
): number {
  const memory = maxMemoryBytes === 0 ? Number.POSITIVE_INFINITY : redisMemoryRatioMax * maxMemoryBytes;
  return Math.floor(UNSETTLED_PART * Math.min(queueBytesMax, memory));
}

/** Least limit on the bytes of all calls with which one of these partitions takes a payment of this many bytes. */
export function queueBytesMinOf(bytes: number, partitions: number): number {
  return (partitions * bytes) / (UNSETTLED_PART * ADDRESS_PART);
}
