import type { DurabilityMode } from "../../redis/server-state.ts";
import type { RunnerHealth } from "./runner-health.ts";

/** The kinds of processes, and of parts inside a program of somebody else's, that report. */
export const KINDS = ["webhooks", "x402", "producer", "runner", "pricing", "operator"] as const;
export type ProcessKind = (typeof KINDS)[number];

export const REPORT_EVERY_MS = 10_000;

/** A process that was silent for three reports counts as gone. */
export const REPORT_KEPT_MS = 3 * REPORT_EVERY_MS + 5000;

/** What is known of a process that runs. Two parts of one program are two. */
export type Process = {
  id: string;
  kind: ProcessKind;
  host: string;
  pid: number;
  /** The release of Postern. */
  version: string;
  /** Tells configurations apart (shared/config/fingerprint.ts); processes of one kind that share one have the same. */
  config: string;
  durability: DurabilityMode;
  /** How far its clock is ahead of Redis'; negative if it is behind. */
  clockAheadMs: number;
  /** Unix ms, by Redis' clock. */
  startedAt: number;
  /** When it took its configuration, in the same. */
  configuredAt: number;
  /** Why the configuration that it read last is not in force. */
  configProblem: string | undefined;
  /** How many of the reloads that operators have asked for it has done; those from before its start too. Undefined of an earlier release. */
  reloads?: number | undefined;
  /** How long ago it reported, by Redis' clock. */
  silentMs: number;
  /** A producer's, if it injects over HTTP. */
  runners: RunnerHealth[];
};
