import type { World } from "./world.ts";

/** What has to be equal at both ends: every accepted call arrives. */
export type Counts = {
  accepted: number;
  /** Different call ids that arrived. */
  counted: number;
  /** Arrivals of an id that had arrived before. */
  duplicates: number;
};

/** Of several turns, scenes or parts together. */
export function totalOf(counts: readonly Counts[]): Counts {
  const sum = (key: keyof Counts) => counts.reduce((total, each) => total + each[key], 0);
  return { accepted: sum("accepted"), counted: sum("counted"), duplicates: sum("duplicates") };
}

export type Count = (world: World, accepted: number) => Promise<Counts>;

/** Injects everything that a world's gateways have accepted, and counts it where it arrives. */
export const countAgain: Count = async ({ sink, startProducer }, accepted) => {
  const producer = await startProducer();
  const { calls: counted, duplicates } = await sink.arrived(accepted);
  await producer.kill();
  return { accepted, counted, duplicates };
};

/** Counts the calls of a hand-written baseline, which no producer reads. */
export const countNothing: Count = async () => totalOf([]);

export function lostOf({ accepted, counted }: Counts): number {
  return accepted - counted;
}

export function countsLine({ accepted, counted, duplicates }: Counts): string {
  const verdict = accepted === counted ? "nothing lost" : `${accepted - counted} LOST`;
  const again = duplicates === 0 ? "" : `, ${duplicates} offered again`;
  return `  ${accepted} calls accepted, ${counted} counted where they arrive: ${verdict}${again}`;
}
