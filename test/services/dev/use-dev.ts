import { PLACES } from "../../../services/dev/ports.ts";
import { freePorts } from "../../../shared/dev/free-port.ts";
import type { PosternProcess } from "../../../shared/dev/process.ts";
import { jsonLines, type Postern } from "../../fixtures/postern.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHere } from "../cli/run-here.ts";

/** The summary that dev prints once everything is ready. */
export type Ready = {
  webhooks: string;
  runner: string;
  ownRunner?: { answers: boolean; secret?: string };
  redis: string;
  operator: string;
  config: string;
  probes: Record<string, string>;
  endpoints: { path: string; curl: string; send?: string }[];
  x402?: string;
  devnet?: { rpc: string; facilitator: string; control: string };
  pricing?: { grpc: string; http: string };
  /** Sentences about things that a user may not expect. */
  notes: string[];
  jobs: { name?: string; url: string; price: string; schema?: string; pay?: string }[];
};

/** Starts dev in a new folder, unless `cwd` names one. Only commands with the same XDG_RUNTIME_DIR find it. */
export function startDev(
  postern: Postern,
  args: readonly string[] = [],
  { env, ...options }: NonNullable<Parameters<Postern["start"]>[1]> = {},
): PosternProcess {
  const own = { XDG_RUNTIME_DIR: tempDir(), ...env };
  return postern.start(["dev", ...args], { cwd: tempDir(), lastSignal: "SIGTERM", env: own, ...options });
}

/** Returns options that keep this dev apart from any other with the usual ports. */
export async function apart(): Promise<string[]> {
  return ["--port-base", String(await freeBase())];
}

/** Returns the first of `count` free ports in a row. */
export const freeBase = (count = Object.keys(PLACES).length): Promise<number> => freePorts(count);

export async function readyOf(dev: PosternProcess): Promise<Ready> {
  return (await dev.waitForEvent("dev.ready")) as unknown as Ready;
}

/** Returns the process ids of the parts, from the lines that dev passes on. */
export function partPids(dev: PosternProcess): Record<string, number> {
  const started = dev.events("service.started");
  return Object.fromEntries(started.map(({ service, pid }) => [String(service), Number(pid)]));
}

/** Buys the job with a payer of the devnet. Returns the outcome that `postern pay` prints. */
export async function buy({ url, pay = "" }: Ready["jobs"][number]): Promise<unknown> {
  const [, payer = ""] = /POSTERN_PAYER_KEY=(0x\w+)/.exec(pay) ?? [];
  const env = { POSTERN_PAYER_KEY: payer };
  return jsonLines(await runHere(["pay", url, "--body", "hi", "-o", "json"], env)).at(-1)?.["outcome"];
}
