import { z } from "zod";
import { toIso } from "../platform/time/iso.ts";
import type { Partitioned } from "../redis/partition.ts";

/*
 * Schemas of the JSON that operators see: in the output of commands with -o json, and in the API of `postern
 * operator`. Fields are added, but never renamed or removed. An unknown value is null or absent.
 */

export const count = z.int().min(0);
export const isoTime = z.iso.datetime();
/** Time in a request, in any time zone. */
export const askedTime = z.iso.datetime({ offset: true });

/** The reason for an act, which the audit log shows. */
export const reason = z.string().trim().min(1, "is empty").max(1000);

/** Converts unix ms to the ISO format of answers; undefined becomes null. */
export function isoOrNull(at: number | undefined): string | null {
  return at === undefined ? null : toIso(at);
}

/** The first time that RFC 3339 cannot express, because its years have four digits. */
const YEAR_10000 = Date.UTC(10_000, 0);

/**
 * Converts a time that a payer signed, in unix seconds. Returns null after the year 9999, because payers can sign any
 * number.
 */
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

/**
 * Number of partitions (`of`), and the indexes of those that the act has not reached because they were unavailable
 * (`unreached`). Present in the answer to an act on a whole job or endpoint if there are several partitions.
 */
export const reached = {
  partitions: z
    .object({ of: count, unreached: z.array(count) })
    .meta({ id: "ReachedPartitions" })
    .optional(),
};

export function reachOf({ all }: Partitioned<unknown>, unreached: readonly number[]) {
  return all.length === 1 ? {} : { partitions: { of: all.length, unreached: [...unreached] } };
}
