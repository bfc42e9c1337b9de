/** What has to be equal at both ends: every accepted call arrives. */
export type Counts = {
  accepted: number;
  /** Different call ids that arrived. */
  counted: number;
  /** Arrivals of an id that had arrived before. */
  duplicates: number;
};

export function lostOf({ accepted, counted }: Counts): number {
  return accepted - counted;
}

export function countsLine({ accepted, counted, duplicates }: Counts): string {
  const verdict = accepted === counted ? "nothing lost" : `${accepted - counted} LOST`;
  const again = duplicates === 0 ? "" : `, ${duplicates} offered again`;
  return `  ${accepted} calls accepted, ${counted} counted where they arrive: ${verdict}${again}`;
}
