import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { DEV_JOBS } from "../../shared/dev/config.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { builtEntry } from "../../shared/dev/process.ts";
import { findRedisServer } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { shellQuote } from "../../shared/platform/text/shell-quote.ts";
import { openShell, type Shell, type Typed } from "../fixtures/shell.ts";
import { tempDir } from "../support/temp-dir.ts";

/** A line of a terminal. */
export type Line = { kind: "comment" | "command" | "output"; text: string };

/**
 * Types a session into a terminal, on real services. It sends a webhook, kills every process with SIGKILL, starts them again, and reads the
 * call from the console. Returns the terminal's content in a form that is equal in each run. Addresses, the call's id and times have fixed
 * values, and lines with process ids are left out. An ellipsis replaces lines that no pattern selects.
 */
export async function recordSession(): Promise<Line[][]> {
  const [redis, runner] = [await freeAddress(), await freeAddress()];
  const [gateway, console] = [await freeAddress(), await freeAddress()];
  const dir = prepareFolder({ redis, runner, gateway, console });
  const shell = openShell({ cwd: dir, env: { PATH: `${dir}/bin:${process.env["PATH"]}` } });
  try {
    const redisAndConsole = "redis-server redis.conf & postern operator >>log &";
    const gatewayAndProducer = "postern webhooks >>log & postern producer >>log &";
    const started = [await shell.type(redisAndConsole), await shell.type(gatewayAndProducer)];
    await untilOk(`http://${gateway}/readyz`);
    const sent = await shell.type(`curl -i http://${gateway}/hooks/open -d 'hello'`);
    const id = /c_[0-9a-f]{32}/.exec(sent.printed.join())?.[0] ?? "";
    // Once the runner is down, no attempt is in flight. A producer killed during an attempt would hold the call until its lock expires.
    await eventually("the producer finds that the runner is down", () =>
      readFileSync(join(dir, "log"), "utf8").includes('"runner.down"'),
    );
    await untilOk(`http://${console}/api/v1/calls/${id}`, /"as":"waiting"/);
    const killed = await killJobs(shell, started);
    const again = [await shell.type(redisAndConsole), await shell.type("postern runner >>log &")];
    // A runner answers 503 until it is ready, and a 503 would cost the call an attempt.
    await untilOk(`http://${runner}/readyz`);
    again.push(await shell.type(gatewayAndProducer));
    await untilOk(`http://${console}/api/v1/calls/${id}`, /"attempts":1/);
    const asked = await shell.type(`postern calls show ${id} --operator http://${console}`);
    const counted = await shell.type("grep -c job.finished log");

    const scenes = [
      scene("Redis, console, gateway and producer run. The runner is down.", [sent], [/^HTTP.* 202 /, /^{/]),
      scene("The 202 means: the call is on disk. Kill everything.", [killed], [/Killed/]),
      scene("Start everything again, and the runner.", again, []),
      scene(
        "Ask the console what happened to the call.",
        [asked],
        [/^call /, /^state +injected/, /^timeline/, /^ {2}/],
      ),
      scene("The job ran once.", [counted], [/^1$/]),
    ];
    return withFixedValues(scenes, {
      [gateway]: "127.0.0.1:9090",
      [console]: "127.0.0.1:9300",
      [id]: "c_7d41f0a9…",
    });
  } finally {
    await shell.end();
  }
}

/**
 * Kills the jobs that `started` shows. Bash reports each end before a prompt, and may report some ends before a later prompt. So the
 * reports are sorted, and lose the marks of the current and the previous job.
 */
async function killJobs(shell: Shell, started: readonly Typed[]): Promise<Typed> {
  const pids = started.flatMap(({ printed }) => printed.map((line) => Number(line.replace(/^\[\d+\] /, ""))));
  const { line, printed } = await shell.type("kill -9 %1 %2 %3 %4");
  await eventually("the jobs have ended", () => !pids.some(isRunning));
  const rest = await shell.type("");
  const all = [...printed, ...rest.printed].map((notice) => notice.replace(/^(\[\d+\])[-+]/, "$1 "));
  return { line, printed: all.sort() };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Makes a folder with the programs, and a configuration for each. */
function prepareFolder(addresses: Record<"redis" | "runner" | "gateway" | "console", string>): string {
  const { redis, runner, gateway, console } = addresses;
  const dir = tempDir();
  const write = (name: string, lines: readonly string[], mode = 0o600) =>
    writeFileSync(join(dir, name), `${lines.join("\n")}\n`, { mode });
  writeConfig(join(dir, "config"), {
    postern: {
      ops_address: "127.0.0.1:0",
      redis: { url: `redis://${redis}` },
      producer: { backoff: { base_ms: 50, cap_ms: 500 } },
      runner: { url: `http://${runner}`, bind_address: runner, secret: "the-secret-of-runner-and-producer" },
    },
    webhooks: {
      bind_address: gateway,
      endpoints: [{ path: "/hooks/open", job_id: DEV_JOBS.echo, auth: "none" }],
    },
    operator: { bind_address: console },
  });
  const durable = ["appendonly yes", "appendfsync always", "maxmemory-policy noeviction"];
  write("redis.conf", [`port ${redis.split(":")[1]}`, "bind 127.0.0.1", "logfile redis.log", ...durable]);
  mkdirSync(join(dir, "bin"));
  symlinkSync(findRedisServer(process.env), join(dir, "bin/redis-server"));
  const program = [process.execPath, ...builtEntry("services/cli/main.js")].map(shellQuote).join(" ");
  write("bin/postern", ["#!/bin/sh", `exec ${program} "$@"`], 0o700);
  return dir;
}

const freeAddress = async () => `127.0.0.1:${await freePort()}`;

function untilOk(url: string, body = /./): Promise<boolean> {
  return eventually(`${url} answers 200 and ${body}`, async () => {
    const answer = await fetch(url);
    return answer.ok && body.test(await answer.text());
  });
}

/** A comment, then the typed commands and the selected lines of their output. Throws if a pattern matches no line. */
function scene(comment: string, steps: readonly Typed[], patterns: readonly RegExp[]): Line[] {
  const lines = steps.flatMap(({ line, printed }): Line[] => [
    { kind: "command", text: line },
    ...shorten(printed, patterns).map((text) => ({ kind: "output", text }) as const),
  ]);
  const missing = patterns.find((pattern) => !lines.some(({ text }) => pattern.test(text)));
  if (missing !== undefined) throw new Error(`no line matches ${missing}: ${JSON.stringify(steps)}`);
  return [{ kind: "comment", text: `# ${comment}` }, ...lines];
}

function shorten(printed: readonly string[], patterns: readonly RegExp[]): string[] {
  return printed
    .filter((line) => !/^\[\d+\] \d+$/.test(line))
    .map((line) => (patterns.some((pattern) => pattern.test(line)) ? line : "…"))
    .filter((line, i, lines) => line !== "…" || lines[i - 1] !== "…");
}

const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;
/** Fixed values that replace the times of the run, the earliest first. */
const FIXED_TIMES = ["2026-01-15T09:41:07.312Z", "2026-01-15T09:41:19.058Z"];

function withFixedValues(scenes: readonly Line[][], values: Readonly<Record<string, string>>): Line[][] {
  const times = [...new Set(JSON.stringify(scenes).match(TIME))].sort();
  const all = [...Object.entries(values), ...times.map((time, i) => [time, FIXED_TIMES[i] ?? time] as const)];
  const fixed = (text: string) =>
    all.reduce((done, [from, to]) => done.replaceAll(from, to), text).replace(/\(\d+s ago\)/, "(1s ago)");
  return scenes.map((lines) => lines.map(({ kind, text }) => ({ kind, text: fixed(text) })));
}
