import type { Redis } from "ioredis";
import type { Keys } from "../../shared/redis/keys.ts";
import { partitionsOver } from "./partitions.ts";

type Place = Parameters<Keys["audit"]>[0];

/** Returns the audit lines of all acts except reads, oldest first. */
export async function audited(
  client: Redis,
  places: readonly Place[] = ["acts", "repeats", "money"],
): Promise<Record<string, string>[]> {
  const streams = partitionsOver(client).all.flatMap(({ keys }) => places.map((place) => keys.audit(place)));
  const found = await Promise.all(streams.map((stream) => client.xrange(stream, "-", "+")));
  const numbersOf = ([id]: [string, string[]]) => id.split("-").map(Number) as [number, number];
  return found
    .flat()
    .map((entry) => ({ entry, numbers: numbersOf(entry) }))
    .toSorted(({ numbers: [a, m] }, { numbers: [b, n] }) => a - b || m - n)
    .map(({ entry: [, flat] }) =>
      Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""]] : []))),
    );
}
