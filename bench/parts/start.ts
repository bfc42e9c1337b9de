import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { startPart } from "../../shared/dev/process.ts";
import { compiled } from "../support/build.ts";
import { cpuMsOf } from "../support/proc.ts";
import type { Setup } from "../support/setup.ts";
import { median } from "../support/statistics.ts";
import { table } from "../support/table.ts";
import { inWorld } from "../support/world.ts";

/** Seconds of processor time above those of a Node that does nothing. */
const TARGETS = {
  "--help": 0.1,
  "--version": 0.1,
  "check-config": 0.3,
  "failed list": 0.3,
  status: 0.3,
  "webhooks, ready": 0.4,
} as const;

type Row = { command: string; target: number; seconds: number; lowest: number; highest: number };
export type StartFigures = { nodeSeconds: number; commands: readonly Row[] };

/** The processor time of whole processes, by turns, with a configuration of one endpoint. */
export function measureStart({ quick, nodeArgs }: Setup): Promise<StartFigures> {
  return inWorld([], async ({ dir, redis }) => {
    const configDir = join(dir, "small");
    writeConfig(configDir, {
      postern: { redis: { url: redis.url }, runner: { secret: "the runner's, in this bench" } },
      webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
    });
    const entry = [...nodeArgs, compiled("services/cli/main.ts")];
    const toEnd = (command: string) => {
      const config = command.startsWith("--") ? [] : ["--config-dir", configDir];
      return () => secondsOf([...entry, ...command.split(" "), ...config]);
    };
    const untilReady = async (): Promise<number> => {
      const anywhere = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
      const args = ["webhooks", "--config-dir", configDir, ...anywhere];
      const gateway = await startPart({ name: "webhooks", entry, args, env: process.env });
      const seconds = cpuMsOf(gateway.process.pid) / 1000;
      await gateway.kill();
      return seconds;
    };
    const names = Object.keys(TARGETS) as (keyof typeof TARGETS)[];
    const ways = names.map((name) => (name === "webhooks, ready" ? untilReady : toEnd(name)));
    const idle: number[] = [];
    const seen: number[][] = names.map(() => []);
    for (let round = 0; round < (quick ? 3 : 15); round++) {
      idle.push(secondsOf([...nodeArgs, "-e", "0"]));
      for (const [i, measure] of ways.entries()) seen[i]?.push(await measure());
    }
    const nodeSeconds = median(idle);
    const commands = names.map((command, i): Row => {
      const above = (seen[i] ?? []).map((seconds) => seconds - nodeSeconds);
      const [lowest, highest] = [Math.min(...above), Math.max(...above)];
      return { command, target: TARGETS[command], seconds: median(above), lowest, highest };
    });
    return { nodeSeconds, commands };
  });
}

/** The shell tells the processor time of what it has run. */
function secondsOf(args: readonly string[]): number {
  const script = 'TIMEFORMAT="%3U %3S"; time "$@" > /dev/null 2> /dev/null';
  const { error, status, stderr } = spawnSync("bash", ["-c", script, "bash", process.execPath, ...args], {
    encoding: "utf8",
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}`);
  const [user = Number.NaN, system = Number.NaN] = stderr.trim().split(" ").map(Number);
  return user + system;
}

export function startTable({ nodeSeconds, commands }: StartFigures): string {
  const rows = commands.map(({ command, seconds, lowest, highest, target }) => [
    ...[command, seconds, lowest, highest, target],
    seconds <= target ? "met" : "MISSED",
  ]);
  const head = ["postern", "seconds above Node's own", "lowest", "highest", "target", ""];
  return `${table(head, rows)}\n\n  "node -e 0" takes ${nodeSeconds.toFixed(3)} s`;
}
