import { z } from "zod";
import { toIso } from "../platform/time/iso.ts";
import type { Partitioned } from "../redis/partition.ts";

/*
 * What an operator is shown, as JSON: by a command with -o json, and by the API of `postern operator`. Members are added, and never renamed
 * or removed. A member that is not known is null or absent.
 */

export const count = z.int().min(0);
export const isoTime = z.iso.datetime();
/** As it is asked for, of any zone. */
export const askedTime = z.iso.datetime({ offset: true });

/** Why something is done, for the audit. */
export const reason = z.string().trim().min(1, "is empty").max(1000);

/** Unix ms as they are shown, and what is asked for as unix ms. */
export function isoOrNull(at: number | undefined): string | null {
  return at === undefined ? null : toIso(at);
}

/** Four digits of a year, as RFC 3339 has them. */
const YEAR_10000 = Date.UTC(10_000, 0);

/** A time that a payer signed, in unix seconds. Payers sign any number: null after the year 9999. */
export function signedTime(seconds: string): string | null {
  const ms = Number(seconds) * 1000;
  return ms < YEAR_10000 ? toIso(ms) : null;
}

export function askedMs(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}

/** An operator's act: author, time and reason. */
export const OperatorAct = z
  .object({ at: isoTime, by: z.string(), reason: z.string() })
  .meta({ id: "OperatorAct" });

/** For the answer to an act on a whole job or endpoint, if there are several partitions: their number, and the indexes of those that are away. */
export const reached = {
  partitions: z
    .object({ of: count, unreached: z.array(count) })
    .meta({ id: "ReachedPartitions" })
    .optional(),
};

export function reachOf({ all }: Partitioned<unknown>, unreached: readonly number[]) {
  return all.length === 1 ? {} : { partitions: { of: all.length, unreached: [...unreached] } };
}
