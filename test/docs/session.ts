import { type ExecFileOptions, execFile, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { tempDir } from "../support/temp-dir.ts";
import type { Block } from "./blocks.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const DEADLINE_MS = 300_000;

/** The output of a block of commands, and the output that the document shows for it. */
export type Shown = { at: string; printed: string; shown: string };

/**
 * Follows a document like a reader who has cloned the project. Writes its files, starts its services, and runs its other commands
 * unchanged, in order, in one shell. Throws with the output of the block that failed.
 */
export async function follow(blocks: readonly Block[]): Promise<Shown[]> {
  const dir = cloneInto(tempDir());
  const shown: Shown[] = [];
  const steps = blocks.flatMap((block, i): string[] => {
    const { language, words, text, at } = block;
    const outputFile = join(dir, `.block-${i}`);
    if (language === "output") {
      shown.push({ at, printed: join(dir, `.block-${i - 1}`), shown: text });
      return [];
    }
    if (language === "ts" || language === "toml")
      return writing(join(dir, words[0] ?? ""), text, `${outputFile}.text`);
    if (language !== "sh") return [];
    if (words[0] === "service") return services(text, outputFile, at);
    return [`at=${at} out=${outputFile}`, `{\n${text}} > ${outputFile} 2>&1`];
  });
  const script = join(dir, ".session.sh");
  writeFileSync(script, [PROLOGUE, ...steps].join("\n"));
  const bin = shims(dir);
  const env = {
    ...process.env,
    PATH: `${bin}:${process.env["PATH"]}:/usr/sbin`,
    REDIS_URL: "",
    CURL_HOME: bin,
  };
  await run([...ISOLATION, "bash", script], { cwd: dir, env, timeout: DEADLINE_MS, killSignal: "SIGKILL" });
  return shown.map((each) => ({ ...each, printed: readFileSync(each.printed, "utf8").replaceAll("\r", "") }));
}

/** Shell code that reports where a command failed and what it printed, and ends background jobs. */
const PROLOGUE = `
set -Eeuo pipefail
exec 3>&1
trap '{ echo "$at failed"; cat "$out"; } >&3' ERR
trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT
until_logged() {
  for _ in $(seq 300); do
    if grep -qE "$1" "$out"; then return 0; fi
    if ! kill -0 "$pid" 2> /dev/null; then return 1; fi
    sleep 0.1
  done
  return 1
}
until_ready() {
  for _ in $(seq 300); do
    if curl "http://127.0.0.1:$1/readyz" > "$out.readyz" && ! grep -q '"ok":false' "$out.readyz"; then return 0; fi
    sleep 0.1
  done
  return 1
}`;

/** Shell code for services, one per line; a backslash at the end continues a line. All services start at the same time. */
function services(text: string, outputFile: string, at: string): string[] {
  const commands = text.replaceAll("\\\n", " ").trim().split("\n");
  const files = commands.map((_, i) => `${outputFile}-${i}`);
  const starts = commands.map(
    (command, i) => `: > ${files[i]}; ${command} > ${files[i]} 2>&1 & pids[${i}]=$!`,
  );
  const waits = commands.map(
    (command, i) =>
      `at='${at} (${i + 1})' out=${files[i]} pid=\${pids[${i}]}; until_logged '${readyLine(command)}'`,
  );
  // A process that starts before the services it calls reaches them only after a retry delay.
  const sells = commands.some((command) => / x402( |$)/.test(command)) ? ["until_ready 8402"] : [];
  const operates = commands.some((command) => / operator( |$)/.test(command)) ? ["until_ready 9095"] : [];
  return ["pids=()", ...starts, ...waits, ...sells, ...operates];
}

/** The log event of each kind of service that means that it can be used. */
function readyLine(command: string): string {
  if (command.includes("redis-server")) return "Ready to accept connections";
  if (/ dev( |$)/.test(command)) return '"event":"dev.ready"';
  if (/ (devnet|producer|operator)( |$)/.test(command)) return '"event":"service.started"';
  return '"event":"redis.ready"|^ready';
}

function writing(file: string, text: string, source: string): string[] {
  writeFileSync(source, text);
  return [`mkdir -p ${dirname(file)}`, `cp ${source} ${file}`];
}

/** Copies the project as it is after a clone, an install and a build. */
function cloneInto(dir: string): string {
  for (const name of ["dist", "node_modules", "services", "shared", "package.json", "tsconfig.json"])
    symlinkSync(join(root, name), join(dir, name));
  for (const name of ["config/example", "config/devnet"])
    cpSync(join(root, name), join(dir, name), { recursive: true });
  return dir;
}

/** Replaces `npm run postern` by a script without install and build, because these would change files that other tests use. */
function shims(dir: string): string {
  const bin = join(dir, ".bin");
  mkdirSync(bin);
  const program = `exec ${process.execPath} ${join(root, "dist/services/cli/main.js")}`;
  const npm = `
case "\${2:-}" in build) exit;; esac
[ "$1" = ci ] && exit
while [ "\${1:-}" != "--" ]; do shift || exit 99; done
shift
${program} "$@"`;
  for (const [name, text] of [
    ["npm", npm],
    ["postern", `${program} "$@"`],
  ] as const)
    writeFileSync(join(bin, name), `#!/usr/bin/env bash\n${text}\n`, { mode: 0o755 });
  // Without a terminal, curl prints its progress.
  writeFileSync(join(bin, ".curlrc"), "silent\nshow-error\n");
  return bin;
}

async function run(words: readonly string[], options: ExecFileOptions) {
  const [command = "", ...args] = words;
  await promisify(execFile)(command, args, options).catch(({ code, stdout, stderr }) => {
    throw new Error(`exit code ${code}\n${stdout}${stderr}`);
  });
}

/** The words before a command that give it a network and processes of its own, in which the ports of the documents are free. */
function isolation(): string[] {
  const loopback =
    'my $lo = pack("a16sx14", "lo", 0x41); socket(S, 2, 1, 0) && ioctl(S, 0x8914, $lo) or die $!';
  const unshare = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"];
  const up = ["perl", "-e", `${loopback}; exec @ARGV or die $!`];
  const works = spawnSync("unshare", [...unshare.slice(1), ...up, "true"]).status === 0;
  return works ? [...unshare, ...up] : [];
}

/** Empty if the system does not allow isolation. Documents then share this machine's ports, and must be followed one after the other. */
export const ISOLATION: readonly string[] = isolation();
