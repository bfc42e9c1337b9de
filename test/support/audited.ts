import type { Redis } from "ioredis";
import { keys } from "../fixtures/redis.ts";

type Place = Parameters<typeof keys.audit>[0];

/** Who did what, oldest first: all but the reads. */
export async function audited(
  client: Pick<Redis, "xrange">,
  places: readonly Place[] = ["acts", "repeats", "money"],
): Promise<Record<string, string>[]> {
  const found = await Promise.all(places.map((place) => client.xrange(keys.audit(place), "-", "+")));
  const numbersOf = ([id]: [string, string[]]) => id.split("-").map(Number) as [number, number];
  return found
    .flat()
    .map((entry) => ({ entry, numbers: numbersOf(entry) }))
    .toSorted(({ numbers: [a, m] }, { numbers: [b, n] }) => a - b || m - n)
    .map(({ entry: [, flat] }) =>
      Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""]] : []))),
    );
}
