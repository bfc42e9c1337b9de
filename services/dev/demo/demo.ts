import type { EndpointToml } from "../../../shared/config/endpoint-toml.ts";
import { type ChildOptions, spawnChild } from "../../../shared/dev/child.ts";
import { findProgram } from "../../../shared/dev/find-program.ts";
import { builtEntry, EventLog, type LoggedEvent, type Part } from "../../../shared/dev/process.ts";
import { credentialHeader, readyCurl } from "../../../shared/dev/ready-commands.ts";
import { beforeDeadline, eventually } from "../../../shared/dev/wait.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { PROGRAM_OF_CLONE } from "../../../shared/platform/lifecycle/environment.ts";
import { shellLine, shellQuote } from "../../../shared/platform/text/shell-quote.ts";
import type { DevStack } from "../dev-stack.ts";
import type { RedisView } from "./redis-view.ts";
import { show } from "./show.ts";

/** The running processes of the demo, and what its chapters use to observe them. */
export type Demo = {
  readonly stack: DevStack;
  readonly runner: Part;
  readonly redis: RedisView;
  readonly log: DemoLog;
  /**
   * The gateway's answer to each webhook that the demo has sent. If no job of the endpoint handles the event, the gateway
   * drops it, and the answer is a success without a call id.
   */
  readonly webhooks: { status: number; callId: string }[];
  /** Environment variables of Postern's processes and of the commands that the demo runs. */
  readonly env: NodeJS.ProcessEnv;
};

/**
 * A chapter of the demo, which shows one property of Postern and checks it. `show` rejects if it cannot continue. A
 * chapter with `more` is shown only with `--all`.
 */
export type Chapter = { title: string; more?: true; show(demo: Demo): Promise<void> };

/** Log lines of all processes ("parts") of the stack. A restarted process adds its lines to the same log. */
export class DemoLog extends EventLog {
  /**
   * Resolves with the first event that matches. The event may be in the log already. If none is logged before the
   * deadline, rejects with an error that contains `what`.
   */
  await(what: string, matches: (event: LoggedEvent) => boolean): Promise<LoggedEvent> {
    return beforeDeadline(what, this.first(matches, new Promise<never>(() => {})));
  }

  /** Resolves with the first event of this name for this call, once it is logged. */
  ofCall(name: string, id: string): Promise<LoggedEvent> {
    return this.await(`${name} of ${id} in the log`, ({ event, callId }) => event === name && callId === id);
  }

  /** Returns how often the runner has run each call. It does not count runs in which the runner only repeated its answer. */
  runs(): Map<string, number> {
    const runs = new Map<string, number>();
    for (const { callId, replayed } of this.named("job.finished"))
      if (replayed !== true) runs.set(String(callId), (runs.get(String(callId)) ?? 0) + 1);
    return runs;
  }
}

/** An HTTP answer. `json` is empty if the body is not a JSON object, and `callId` is empty if it names no call. */
export type Reply = ReturnType<typeof toReply>;

function toReply(status: number, headers: Headers, text: string) {
  const json = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { status, headers, text, json, callId: String(json["call_id"] ?? "") };
}

/**
 * Sends a GET, or a POST if there is a body. Each request uses a new connection. The demo kills servers, and a request on
 * an old connection to a killed server would fail.
 */
export async function httpRequest(
  url: string,
  body?: string,
  headers: Record<string, string> = {},
): Promise<Reply> {
  const answer = await fetch(url, {
    method: body === undefined ? "GET" : "POST",
    headers: { Connection: "close", ...headers },
    body: body ?? null,
    signal: AbortSignal.timeout(60_000),
  });
  return toReply(answer.status, answer.headers, await answer.text());
}

export type Webhook = {
  /** The endpoint's path. */
  path: string;
  body: string;
  /** The body for which the credential is made, if it differs from `body`. */
  signedBody?: string;
  headers?: Readonly<Record<string, string>>;
};

export function endpointAt({ stack }: Demo, path: string): EndpointToml {
  const endpoint = stack.config.webhooks?.endpoints.find((each) => each.path === path);
  if (endpoint === undefined) throw new Error(`there is no endpoint at ${path}`);
  return endpoint;
}

/** Sends a webhook, with the signature or token that its endpoint requires. */
export async function send(demo: Demo, webhook: Webhook): Promise<Reply> {
  const { path, body, signedBody = body, headers = {} } = webhook;
  const credential = credentialHeader(endpointAt(demo, path), signedBody);
  const reply = await httpRequest(`http://${demo.stack.parts.webhooks.address}${path}`, body, {
    "Content-Type": "application/json",
    ...(credential && { [credential.name]: credential.value }),
    ...headers,
  });
  demo.webhooks.push(reply);
  return reply;
}

/**
 * Prints the curl command that sends this webhook, and runs exactly this line in a shell. If curl is not installed,
 * sends the same request without it.
 */
export async function curl(demo: Demo, webhook: Webhook): Promise<Reply> {
  const { stack, env } = demo;
  const { path, body, signedBody = body, headers = {} } = webhook;
  const { address } = stack.parts.webhooks;
  const signed = readyCurl(endpointAt(demo, path), { address, body: signedBody }) ?? "";
  const more = Object.entries(headers).map(([name, value]) => ` -H ${shellQuote(`${name}: ${value}`)}`);
  const line = [signed.replace(shellQuote(signedBody), () => shellQuote(body)), ...more].join("");
  show.command(line);
  if (findProgram(["curl"], env) === undefined) {
    show.say("curl is not installed, so the demo sends the same request itself");
    return send(demo, webhook);
  }
  const direct = { ...env, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
  const { stdout } = await run("curl", { command: "sh", args: ["-c", line], env: direct });
  const reply = readCurl(stdout);
  demo.webhooks.push(reply);
  return reply;
}

/** Parses the output of `curl -i`: the status line, the headers, an empty line and the body. */
function readCurl(lines: readonly string[]): Reply {
  const end = lines.indexOf("");
  const headers = lines.slice(1, end).map((line) => line.split(/: (.*)/, 2) as [string, string]);
  const status = Number(/^HTTP\/\S+ (\d{3})/.exec(lines[0] ?? "")?.[1] ?? 0);
  return toReply(status, new Headers(headers), lines.slice(end + 1).join("\n"));
}

/** Requests what the runner has stored about a call. Resolves with an empty object if the runner does not know the call. */
export async function atRunner({ runner }: Demo, callId: string): Promise<Record<string, unknown>> {
  const { status, json } = await httpRequest(`http://${runner.address}/calls/${callId}`);
  return status === 200 ? json : {};
}

/** An accepted call, and the body that the runner must receive. */
export type Call = { readonly callId: string; readonly body: string };

/**
 * Waits until the runner reports that it has run the call, with exactly the bytes that were sent. Resolves with the
 * runner's log line of the run.
 */
export async function untilRun(demo: Demo, { callId, body }: Call): Promise<LoggedEvent> {
  if (callId === "") throw new Error("the request was not accepted, so there is no call to wait for");
  await eventually(`the runner lists ${callId} as done, with the bytes that were sent`, async () => {
    const { state, sha256 } = await atRunner(demo, callId);
    return state === "done" && sha256 === sha256Hex(Buffer.from(body));
  });
  return demo.log.ofCall("job.finished", callId);
}

/** Runs a `postern` command with the configuration of the demo's processes. Prints the command and its output. */
export function postern(demo: Demo, ...args: readonly string[]) {
  const all = [...args, "--config-dir", demo.stack.config.dir];
  return runPostern(demo, all, `${PROGRAM_OF_CLONE} ${shellLine(all)}`);
}

/**
 * Runs `postern`. Prints `line`, the command as a user would type it, and then the output. The variables in `more` are
 * added to the environment.
 */
export async function runPostern(
  { env }: Demo,
  args: readonly string[],
  line: string,
  more: NodeJS.ProcessEnv = {},
) {
  show.command(line);
  const { exitCode, output } = await run(`postern ${args.join(" ")}`, {
    command: process.execPath,
    args: [...builtEntry("services/cli/main.js"), ...args],
    env: { ...env, ...more },
  });
  show.output(output);
  return { exitCode, text: output.join("\n") };
}

async function run(what: string, options: ChildOptions) {
  const [output, stdout]: [string[], string[]] = [[], []];
  const onLine = (line: string, from: "stdout" | "stderr"): void => {
    output.push(line);
    if (from === "stdout") stdout.push(line);
  };
  const child = spawnChild({ ...options, detached: true, onLine });
  const { code: exitCode } = await beforeDeadline(`${what} ends`, child.exit);
  return { exitCode, output, stdout };
}
