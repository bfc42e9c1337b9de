import type { DurabilityMode } from "../../redis/server-state.ts";
import type { RunnerHealth } from "./runner-health.ts";

/** Kinds of processes that report. A part of Postern that runs inside another program also reports, as a process of its kind. */
export const KINDS = ["webhooks", "x402", "producer", "runner", "pricing", "operator"] as const;
export type ProcessKind = (typeof KINDS)[number];

export const REPORT_EVERY_MS = 10_000;

/** A process without a report for this long counts as gone: three reports are missing. */
export const REPORT_KEPT_MS = 3 * REPORT_EVERY_MS + 5000;

/** A running process. Two parts of Postern in one program are two processes here. */
export type Process = {
  id: string;
  kind: ProcessKind;
  host: string;
  pid: number;
  /** The release of Postern. */
  version: string;
  /**
   * Hash of the configuration that is in force (shared/config/fingerprint.ts). If processes of one kind have different
   * hashes, their configurations differ.
   */
  config: string;
  durability: DurabilityMode;
  /** How far the process's clock is ahead of Redis'; negative if it is behind. */
  clockAheadMs: number;
  /** Unix ms, by Redis' clock. */
  startedAt: number;
  /** When the process applied its configuration, unix ms by Redis' clock. */
  configuredAt: number;
  /** Reason why the process does not use the configuration that it read last. Undefined if it uses that configuration. */
  configProblem: string | undefined;
  /**
   * Number of the last reload that the process has completed. `postern reload` makes all processes read their
   * configuration again, and these reloads are numbered from 1 for the whole deployment. A reload before the process
   * started counts as completed. Undefined if the process runs an earlier release, which does not report it.
   */
  reloads?: number | undefined;
  /** Time since the last report, by Redis' clock. */
  silentMs: number;
  /** Runners that this producer sends calls to over HTTP. Empty for other kinds of processes. */
  runners: RunnerHealth[];
};
