import { AppError } from "../platform/errors/app-error.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import { type Settled, settled } from "../platform/time/clock.ts";
import { unlessRedis } from "./failure.ts";
import { inPages, mergePages } from "./pages.ts";
import type { Partitioned } from "./partition.ts";

/*
 * Functions that read from all partitions and merge the results. A result with only a part of the data must never look
 * complete. So if a partition cannot be read, they throw an error that names it, or return its index.
 */

/**
 * Asks all partitions in parallel. If a partition cannot be asked, throws `queue.unavailable` or `queue.denied` with the
 * index of that partition.
 */
export function askAll<One, Answer>(
  each: Partitioned<One>,
  ask: (one: One, index: number) => Promise<Answer>,
): Promise<Answer[]> {
  return Promise.all(each.all.map((_, index) => askOne(each, index, (one) => ask(one, index))));
}

/** Asks, in parallel, each partition that has some of these calls. `ask` gets only the ids of the calls in its partition. */
export function askOwn<One, Answer>(
  each: Partitioned<One>,
  ids: readonly string[],
  ask: (one: One, own: readonly string[]) => Promise<Answer[]>,
): Promise<Answer[][]> {
  const owns = each.all.map((_, index) => ids.filter((id) => each.indexOf(id) === index));
  return Promise.all(
    owns.map(async (own, index) => (own.length === 0 ? [] : askOne(each, index, (one) => ask(one, own)))),
  );
}

/** Asks the partition with this index. Throws `queue.unavailable` or `queue.denied` with its index if it cannot be asked. */
export async function askOne<One, Answer>(
  each: Partitioned<One>,
  index: number,
  ask: (one: One) => Promise<Answer>,
): Promise<Answer> {
  return ask(each.at(index)).catch((error: unknown) => {
    throw namePartition(error, index, each.all.length);
  });
}

/**
 * Asks the partition with this index. If partition 0 cannot be asked, throws, because it has data that no other partition
 * has. If another partition cannot be asked, returns the error in the outcome.
 */
export async function tryOne<One, Answer>(
  each: Partitioned<One>,
  index: number,
  ask: (one: One) => Promise<Answer>,
): Promise<Settled<Answer>> {
  const outcome = await settled(askOne(each, index, ask));
  if (outcome.kind === "done") return outcome;
  const error = unlessRedis(outcome.error);
  if (index === 0 || !(error instanceof AppError)) throw outcome.error;
  return { kind: "failed", error };
}

/** Answers of the partitions, and errors of those that could not be asked, each by the partition's index. */
type Reached<Answer> = { answers: Map<number, Answer>; unreached: Map<number, unknown> };

/**
 * Asks all partitions in parallel, except those with the indexes `without`. Throws if partition 0 cannot be asked. If
 * another partition cannot be asked, `unreached` has the error.
 */
export async function askReachable<One, Answer>(
  each: Partitioned<One>,
  ask: (one: One, index: number) => Promise<Answer>,
  without: ReadonlySet<number> = new Set(),
): Promise<Reached<Answer>> {
  const indexes = [...each.all.keys()].filter((index) => !without.has(index));
  const outcomes = await Promise.all(
    indexes.map(async (index) => [index, await tryOne(each, index, (one) => ask(one, index))] as const),
  );
  const reached: Reached<Answer> = { answers: new Map(), unreached: new Map() };
  for (const [index, outcome] of outcomes)
    if (outcome.kind === "done") reached.answers.set(index, outcome.result);
    else reached.unreached.set(index, outcome.error);
  return reached;
}

/**
 * Reads items from all partitions and merges them into one sequence in the order of `isBefore`. Each partition must yield its
 * items in this order.
 */
export async function* mergeAll<One, Item>(
  each: Partitioned<One>,
  read: (one: One) => AsyncGenerator<Item>,
  isBefore: (a: Item, b: Item) => boolean,
): AsyncGenerator<Item> {
  const sources = each.all.map((one, index) => inPages(readIn(each, index, read(one)), 1));
  for await (const page of mergePages(sources, isBefore, 1)) yield* page;
}

/** Reads from the partition with this index. If that fails, the error names the partition. */
export async function* readIn<Item>(
  each: Partitioned<unknown>,
  index: number,
  reading: AsyncGenerator<Item>,
): AsyncGenerator<Item> {
  each.assertUsable(index);
  try {
    yield* reading;
  } catch (error) {
    throw namePartition(error, index, each.all.length);
  }
}

/** A page of items. If there are more items, `next` is the place of the last item that was read for this page. */
type Page<Item, Place> = { items: readonly Item[]; next: Place | undefined };

/**
 * Merges one page from each partition, and returns the first `limit` items. If a page has a `next`, its partition may have
 * more items after that place, which are not read yet. So all items after the earliest `next` are left out.
 */
export function mergedPage<Item, Place>(
  pages: readonly Page<Item, Place>[],
  options: { limit: number; isBefore: (a: Place, b: Place) => boolean; placeOf: (item: Item) => Place },
): Page<Item, Place> {
  const { limit, isBefore, placeOf } = options;
  const [end] = pages.flatMap(({ next }) => next ?? []).sort((a, b) => (isBefore(a, b) ? -1 : 1));
  const items = pages
    .flatMap((page) => page.items)
    .filter((item) => end === undefined || !isBefore(end, placeOf(item)))
    .sort((a, b) => (isBefore(placeOf(a), placeOf(b)) ? -1 : 1));
  const shown = items.slice(0, limit);
  const last = shown.at(-1);
  return { items: shown, next: items.length > limit && last !== undefined ? placeOf(last) : end };
}

function namePartition(error: unknown, index: number, count: number): unknown {
  const failure = unlessRedis(error);
  if (count === 1 || !(failure instanceof AppError) || !OF_REDIS.includes(failure.code)) return error;
  return unavailable({ index, count }, failure);
}

const OF_REDIS: readonly ErrorCode[] = ["queue.unavailable", "queue.denied"];

/** Builds the error that says which partition cannot be used. */
export function unavailable(place: { index: number; count: number }, cause: AppError): AppError {
  const detail = `partition ${place.index} of ${place.count} cannot be used: ${cause.message}`;
  const code = cause.code === "service.starting" ? "queue.unavailable" : cause.code;
  const { retryAfterMs } = cause;
  return AppError.public(code, detail, { cause, ...(retryAfterMs !== undefined && { retryAfterMs }) });
}
