import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { endWithParent } from "../../shared/dev/child.ts";
import { compiled } from "./build.ts";
import { cpuMsOf, rssBytesOf } from "./proc.ts";
import { until } from "./until.ts";

export type LoggedProcess = {
  /** What it said of itself when it had started. */
  readonly started: Readonly<Record<string, unknown>>;
  /** Milliseconds of processor time it has used, in its own code and in the kernel; NaN where /proc does not tell. */
  cpuMs(): number;
  /** Bytes of memory it holds; NaN where /proc does not tell. */
  rssBytes(): number;
  /** Ends it as an operator would, and waits for the end. */
  stop(): Promise<void>;
};

type Options = {
  name: string;
  script: string;
  args: readonly string[];
  /** Where its log goes. */
  dir: string;
  nodeArgs: readonly string[];
};

/** Starts a Node process whose lines go to a file, as cheap as in production, and resolves once it says it has started. */
export async function startLogged({ name, script, args, dir, nodeArgs }: Options): Promise<LoggedProcess> {
  const logFile = join(dir, `${name}.log`);
  const log = openSync(logFile, "w");
  const child = spawn(process.execPath, [...nodeArgs, compiled(script), ...args], {
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  endWithParent(child);
  const exited = once(child, "exit");
  const started = await until(`${name} has started`, () => {
    if (child.exitCode !== null) throw new Error(`${name} ended at once:\n${readFileSync(logFile, "utf8")}`);
    return startedEvent(logFile);
  });
  return {
    started,
    cpuMs: () => cpuMsOf(child.pid),
    rssBytes: () => rssBytesOf(child.pid),
    async stop() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

function startedEvent(logFile: string): Record<string, unknown> | undefined {
  const line = readFileSync(logFile, "utf8")
    .split("\n")
    .slice(0, -1)
    .find((text) => text.includes('"service.started"'));
  return line === undefined ? undefined : (JSON.parse(line) as Record<string, unknown>);
}
