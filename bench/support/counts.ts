import type { World } from "./world.ts";

/** Numbers of the calls that were accepted and of those that arrived at the sink. If they differ, calls were lost. */
export type Counts = {
  accepted: number;
  /** Number of different call ids that arrived. */
  counted: number;
  /** Number of duplicates: arrivals whose id had already arrived. */
  duplicates: number;
};

/** Adds up the counts of several turns or parts. */
export function totalOf(counts: readonly Counts[]): Counts {
  const sum = (key: keyof Counts) => counts.reduce((total, each) => total + each[key], 0);
  return { accepted: sum("accepted"), counted: sum("counted"), duplicates: sum("duplicates") };
}

export type Count = (world: World, accepted: number) => Promise<Counts>;

/**
 * Starts a producer, which injects all calls that the gateways of a world have accepted, and counts the calls that arrive at
 * the sink.
 */
export const countAgain: Count = async ({ sink, startProducer }, accepted) => {
  const producer = await startProducer();
  const { calls: counted, duplicates } = await sink.arrived(accepted);
  await producer.kill();
  return { accepted, counted, duplicates };
};

/** Counts nothing, because no producer reads the calls of a hand-written baseline. */
export const countNothing: Count = async () => totalOf([]);

export function lostOf({ accepted, counted }: Counts): number {
  return accepted - counted;
}

export function countsLine({ accepted, counted, duplicates }: Counts): string {
  const verdict = accepted === counted ? "nothing lost" : `${accepted - counted} LOST`;
  const again = duplicates === 0 ? "" : `, ${duplicates} offered again`;
  return `  ${accepted} calls accepted, ${counted} counted where they arrive: ${verdict}${again}`;
}
