import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DevSecrets } from "../../shared/dev/config.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import type { Part } from "../../shared/dev/process.ts";
import { type PrivateRedis, provideRedis } from "../../shared/dev/redis.ts";
import { createStack, type ServiceName, untilReady } from "../../shared/dev/stack.ts";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Shutdown } from "../../shared/platform/lifecycle/run-service.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { DEVNET_NETWORK, namedDevnet, useDevnet } from "./devnet.ts";
import { type Effective, writeEffectiveConfig } from "./effective-config.ts";
import { type Own, runnerTable } from "./own-config.ts";
import { isThere, ownRunnerUrl } from "./own-runner.ts";
import { PLACES, type Place, type Ports } from "./ports.ts";

export type DevStackOptions = {
  own: Own;
  /** Whether `postern dev` adds jobs to the operator's configuration (`own`), and sells them for the tokens of a devnet. */
  sellsOnDevnet: boolean;
  /** The operator's own runner, which replaces the reference runner. */
  runner: URL | undefined;
  serviceId: string;
  ports: Ports;
  /** Returns the secrets that `postern dev` generates. Called only if the operator's configuration lacks one. */
  secrets: () => DevSecrets;
  env: NodeJS.ProcessEnv;
  /** Called with every line that a part (a process of the stack) logs. */
  onLine: (part: string, line: string) => void;
  log: Logger;
  /** Shutdown of `postern dev`. Each started process adds a step that stops it. */
  shutdown: Shutdown;
};

export type DevStack = {
  config: Effective;
  parts: Parts;
  ownRunner: OwnRunner | undefined;
  redisUrl: string;
  /** The Redis that `postern dev` has started. Undefined if it uses the one that REDIS_URL names. */
  privateRedis: PrivateRedis | undefined;
  devnet: Devnet | undefined;
  /** Process of the devnet. Undefined without a devnet, or if another `postern dev` or `postern devnet` runs it. */
  devnetPart: Part | undefined;
  /** Sentences for the user about surprises, for example that payments are off or that a process has another port. */
  notes: string[];
};

export type Parts = Record<"webhooks" | "producer" | "operator", Part> &
  Record<"runner" | "x402" | "pricing", Part | undefined>;

export type OwnRunner = {
  url: string;
  /** Whether a server answered at the URL when `postern dev` started. */
  answers: boolean;
  /** Secret with which calls to the runner are signed. Undefined if the operator has configured one. */
  secret: string | undefined;
  /** URL to which the runner delivers the results of long jobs, if deliveries are accepted. */
  deliverTo: string | undefined;
};

/**
 * Memory limit of Redis, which is enough for trials. When Redis is nearly full, the gateways refuse calls, so that the
 * machine does not run out of memory.
 */
const REDIS_MEMORY = "1gb";

/** Starts Redis, a devnet if jobs are sold on one, and every part of Postern. Resolves once all of them are ready. */
export async function startDevStack(options: DevStackOptions): Promise<DevStack> {
  const { own, sellsOnDevnet, serviceId, ports, secrets, env, onLine, log, shutdown } = options;
  const home = mkdtempSync(join(tmpdir(), "postern-dev-"));
  // The folder is removed when the process exits. A step of the shutdown would not do, because a second stop signal skips
  // the remaining steps.
  process.once("exit", () => rmSync(home, { recursive: true, force: true }));

  const port = (await ports.of("redis")) || undefined;
  const args = ["--maxmemory", REDIS_MEMORY];
  const redis = await provideRedis({ env, dir: join(home, "redis"), port, args, detached: true });
  shutdown.defer("redis", () => redis.private?.stop());

  const named = namedDevnet(own.checked?.x402);
  const devnet =
    named !== undefined || sellsOnDevnet
      ? await useDevnet({ named, ports, env, onLine: (line) => onLine("devnet", line), log })
      : undefined;
  shutdown.defer("devnet", () => devnet?.part?.kill("SIGTERM"));

  const runnerUrl = ownRunnerUrl(options.runner, runnerTable(own.tables));
  const webhooksProbes = (await ports.of("webhooksProbes")) || (await freePort());
  const config = await writeEffectiveConfig({
    own,
    sellsOnDevnet,
    deliverTo: `http://127.0.0.1:${webhooksProbes}`,
    target: join(home, "config"),
    redisUrl: redis.url,
    devnet: devnet?.devnet,
    ownRunner: runnerUrl,
    ports,
    secrets,
    serviceId,
    env,
  });
  const ownRunner = runnerUrl === undefined ? undefined : await checkRunner(config, log);
  const parts = await startParts({ config, ownRunner, webhooksProbes }, options);
  return {
    config,
    parts,
    ownRunner,
    redisUrl: redis.url,
    privateRedis: redis.private,
    devnet: devnet?.devnet,
    devnetPart: devnet?.part,
    notes: [...paymentNotes(options, named !== undefined), ...portNotes(ports, devnet?.part !== undefined)],
  };
}

/**
 * Returns the reason, if any, why the operator's configuration permits no purchase on a local chain. If a devnet could
 * not be started, this function adds nothing, because a warning in the log has already given the reason.
 */
function paymentNotes({ own, sellsOnDevnet }: DevStackOptions, namesDevnet: boolean): string[] {
  if (sellsOnDevnet || namesDevnet) return [];
  if (own.checked?.x402 === undefined)
    return [
      "payments are off: your configuration has no x402.toml (config/devnet in a clone has one for the local chain)",
    ];
  return [
    `no local chain was started: x402.toml has no token of ${DEVNET_NETWORK} whose facilitator and rpc_url are on this machine`,
  ];
}

const OF_DEVNET: readonly Place[] = ["rpc", "facilitator", "control"];

function portNotes({ moved }: Ports, startsDevnet: boolean): string[] {
  return [...moved]
    .filter(([place]) => startsDevnet || !OF_DEVNET.includes(place))
    .map(
      ([place, port]) =>
        `port ${PLACES[place].usual} is taken; ${PLACES[place].what} listens on ${port} instead`,
    );
}

/**
 * Checks whether the operator's runner answers. The stack also starts without the runner, because calls wait in the
 * queue.
 */
async function checkRunner(
  { postern, hasGeneratedRunnerSecret, deliverTo }: Effective,
  log: Logger,
): Promise<OwnRunner> {
  const { url, secret } = postern.runner;
  const answers = await isThere(url);
  if (!answers)
    log.warn("dev.runner_down", { url, reason: "the runner does not answer yet; calls wait until it does" });
  return { url, answers, secret: hasGeneratedRunnerSecret ? secret?.[0]?.reveal() : undefined, deliverTo };
}

const PORT_ADVICE =
  ". Is another postern dev running? Stop it, change this address in your configuration, or give --port-base";

type Configured = {
  config: Effective;
  /** The operator's own runner. If present, the reference runner is not started. */
  ownRunner: OwnRunner | undefined;
  /** Port at which the webhooks gateway answers probes, and at which runners deliver the results of long jobs. */
  webhooksProbes: number;
};

/**
 * Starts the processes ("parts") of Postern one after the other, and waits until each is ready before the next starts.
 * Throws `start.part_ended` if a part does not start.
 */
async function startParts(
  { config, ownRunner, webhooksProbes }: Configured,
  { serviceId, env, ports, onLine, shutdown }: DevStackOptions,
): Promise<Parts> {
  const stack = createStack({ configDir: config.dir, env, detached: true, onLine });
  const probesOf = async (service: ServiceName): Promise<number> => {
    if (service === "webhooks") return webhooksProbes;
    return await ports.of(`${service}Probes`);
  };
  const startPart = async (service: ServiceName, args: readonly string[] = []) => {
    const probes = await probesOf(service);
    try {
      const part = await stack.start(service, { args, opsAddress: `127.0.0.1:${probes}` });
      shutdown.defer(service, () => part.kill("SIGTERM"));
      await untilReady(part);
      return part;
    } catch (cause) {
      const isTaken = cause instanceof AppError && cause.code === "start.address_unavailable";
      throw new AppError("start.part_ended", {
        reason: `${messageOf(cause)}${isTaken ? PORT_ADVICE : ""}`,
        cause,
      });
    }
  };
  // Chooses the console's port just before the console starts, which is the last one. If it were chosen earlier, another
  // `postern dev` could take the port before.
  const consoleArgs = async () =>
    config.hasConsole ? [] : ["--bind-address", `127.0.0.1:${await ports.of("operator")}`];
  return {
    runner: ownRunner === undefined ? await startPart("runner") : undefined,
    producer: await startPart("producer"),
    webhooks: await startPart("webhooks", ["--service-id", serviceId]),
    x402: config.x402 && (await startPart("x402")),
    pricing: config.pricing && (await startPart("pricing")),
    operator: await startPart("operator", await consoleArgs()),
  };
}
