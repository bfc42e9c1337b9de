import type { DurabilityMode } from "../../redis/server-state.ts";
import type { RunnerHealth } from "./runner-health.ts";

/** Kinds of processes that report. A part of Postern inside another program reports as a process too. */
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
   * Hash of the configuration (shared/config/fingerprint.ts). Processes of one kind with the same configuration have the same
   * hash.
   */
  config: string;
  durability: DurabilityMode;
  /** How far the process's clock is ahead of Redis'; negative if it is behind. */
  clockAheadMs: number;
  /** Unix ms, by Redis' clock. */
  startedAt: number;
  /** When the process applied its configuration, unix ms by Redis' clock. */
  configuredAt: number;
  /** Why the configuration that the process read last is not in force. */
  configProblem: string | undefined;
  /**
   * Number of the last reload that the process has completed. Operators' reloads are numbered from 1 for the whole
   * deployment. A reload before the process started counts as completed. Undefined for an earlier release.
   */
  reloads?: number | undefined;
  /** Time since the last report, by Redis' clock. */
  silentMs: number;
  /** Runners of a producer that injects over HTTP. */
  runners: RunnerHealth[];
};
