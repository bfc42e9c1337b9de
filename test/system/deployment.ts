import type { TomlTable } from "smol-toml";
import { expect } from "vitest";
import { callIdFrom } from "../../shared/call/call-id.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import type { PosternProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import type { ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { TOKENS, TWO_TOKENS } from "../fixtures/console.ts";
import { jsonLines, type Postern } from "../fixtures/postern.ts";
import { loginOf } from "../fixtures/redis.ts";
import { runHereWith } from "../services/cli/run-here.ts";
import { send } from "../support/http.ts";

const PATH = "/hooks/echo";
const DELIVERY = "X-Delivery-Id";
const ENDPOINT = {
  ...{ path: PATH, job_id: 1, auth: "none", idempotency_header: DELIVERY },
  ...{ respond: "result", wait_secs: 20 },
};
const OPS = ["--ops-address", "127.0.0.1:0"];
const HERE = ["--bind-address", "127.0.0.1:0"];

/** Starts every process of a deployment, each as the Redis user of its kind. `place` has the keys of `[redis]`. */
export async function startDeployment(postern: Postern, place: TomlTable) {
  const runnerAddress = `127.0.0.1:${await freePort()}`;
  const as = (kind: ProcessKind): void =>
    postern.configure({
      postern: {
        drain_secs: 0,
        redis: { ...place, ...loginOf(kind, place["name"] as string | undefined) },
        runner: { url: `http://${runnerAddress}`, bind_address: runnerAddress, timeout_ms: 2000 },
        producer: { lock_ms: 3000, backoff: { base_ms: 50, cap_ms: 500 } },
        results: { secret: "the secret of the tokens of results" },
      },
      webhooks: {
        endpoints: [ENDPOINT],
      },
      operator: { tokens: [...TWO_TOKENS] },
    });
  const here = runHereWith(postern);
  const start = (kind: ProcessKind, args: readonly string[]): PosternProcess => {
    as(kind);
    return postern.start([kind, ...args]);
  };
  const processes = {
    webhooks: start("webhooks", [...HERE, ...OPS]),
    producer: start("producer", OPS),
    runner: start("runner", OPS),
    operator: start("operator", [...HERE, ...OPS]),
  };
  const lines: Record<string, unknown>[] = [];
  as("operator");
  postern.start(["tail", "-o", "json"], {
    onLine(line) {
      if (line.startsWith("{")) lines.push(JSON.parse(line) as Record<string, unknown>);
    },
  });
  const addressOf = async (kind: "webhooks" | "operator", field = "address"): Promise<string> =>
    String((await processes[kind].waitForEvent("service.started"))[field]);
  const [gateway, console] = await Promise.all([addressOf("webhooks"), addressOf("operator")]);

  /** Sends a webhook until its sender gets the result. Returns the id of the call. */
  async function call(body: string): Promise<string> {
    const headers = { [DELIVERY]: body };
    await eventually(`a sender gets the result of ${body}`, async () => {
      const answer = await send(gateway, { path: PATH, headers, body, timeoutMs: 30_000 });
      return answer.status === 200 && answer.text === body;
    });
    return callIdFrom(PATH, body, sha256Hex(Buffer.from(body)));
  }

  /** Returns the call as the console shows it. */
  async function find(id: string): Promise<unknown> {
    const headers = { Authorization: `Bearer ${TOKENS.viewer}` };
    const { status, text } = await send(console, { method: "GET", path: `/api/v1/calls/${id}`, headers });
    return status === 200 && text.includes(id) ? text : undefined;
  }

  let followed = 0;
  return {
    processes,
    lines,
    call,

    find,

    /** Returns the kinds of processes that have reported to Redis. */
    async reported(): Promise<string[]> {
      as("operator");
      const [status] = jsonLines(await here(["status", "-o", "json"]));
      const processes = (status?.["processes"] ?? []) as { kind: string }[];
      return processes.map(({ kind }) => kind).sort();
    },

    /**
     * Checks that a sender gets the result of its call, and that the console and a command find the call. Returns its
     * id.
     */
    async works(body: string): Promise<string> {
      const id = await call(body);
      await eventually("the console shows the call", () => find(id));
      as("operator");
      const shown = await here(["calls", "show", id, "-o", "json"]);
      expect([shown.code, shown.stderr]).toEqual([0, ""]);
      expect(JSON.stringify(jsonLines(shown))).toContain(id);
      return id;
    },

    /** Checks that `postern tail` shows the end of a call that began after its first `seen` lines. */
    async isFollowed(seen: number): Promise<void> {
      await eventually("postern tail shows calls", async () => {
        followed += 1;
        await call(`followed ${followed}`);
        return lines.slice(seen).some(({ outcome }) => outcome === "injected");
      });
    },
  };
}
