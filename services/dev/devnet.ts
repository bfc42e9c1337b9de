import { connect } from "node:net";
import { isLoopback } from "../../shared/config/fields.ts";
import { type Devnet, provideDevnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import type { Part } from "../../shared/dev/process.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { X402Config } from "../../shared/pricing/read-x402.ts";
import type { Ports } from "./ports.ts";

/** Network of the chain that `postern devnet` runs. */
export const DEVNET_NETWORK = "eip155:84532";
/**
 * Path on the devnet's control port where it simulates a second node. That node answers for the same chain, but tests
 * can make it faulty (chain/control.ts).
 */
const SECOND_NODE = "/rpc";
const BLOCK_TIME_MS = 1000;
const ANSWER_MS = 2000;

type NamedPorts = { rpc?: number; facilitator?: number; control?: number };

/**
 * Returns the ports at which an operator's x402.toml expects a devnet. It expects one if it has a token of the devnet's
 * chain, whose node and facilitator are on this machine. If not, returns undefined.
 */
export function namedDevnet(x402: X402Config["x402"]): NamedPorts | undefined {
  const token = x402?.accepted_tokens.find(({ network }) => network === DEVNET_NETWORK);
  const facilitator = x402?.facilitators.map(({ url }) => url).find(isHere);
  if (token === undefined || facilitator === undefined) return undefined;
  const node = token.rpc_url?.reveal();
  if (node === undefined) return { facilitator: portOf(facilitator) };
  if (!isHere(node) || portOf(node) === portOf(facilitator)) return undefined;
  const place = new URL(node).pathname === SECOND_NODE ? "control" : "rpc";
  return { facilitator: portOf(facilitator), [place]: portOf(node) };
}

/** Returns whether the URL can be that of a devnet's server. These listen on 127.0.0.1 without TLS. */
function isHere(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && isLoopback(url) && hostname !== "[::1]";
}

function portOf(url: string): number {
  return Number(new URL(url).port || 80);
}

/** A running devnet. `part` is its process, and is absent if another `postern dev` or `postern devnet` has started it. */
export type DevnetInUse = { part?: Part; devnet: Devnet };

type Options = {
  /** Ports at which the operator's files expect the devnet. Undefined if they expect none, and any port will do. */
  named: NamedPorts | undefined;
  ports: Ports;
  env: NodeJS.ProcessEnv;
  onLine: (line: string) => void;
  log: Logger;
};

/**
 * Returns the devnet that already runs at the ports in the operator's files. If the ports are free, it starts a devnet
 * there. If anvil is not installed, or another server uses the ports, it logs a warning and returns undefined.
 */
export async function useDevnet({
  named,
  ports,
  env,
  onLine,
  log,
}: Options): Promise<DevnetInUse | undefined> {
  const given = ports.chosen ? {} : (named ?? {});
  const at = {
    rpc: given.rpc ?? (await ports.of("rpc")),
    facilitator: given.facilitator ?? (await ports.of("facilitator")),
    control: given.control ?? (await controlPortAfter(given.facilitator, ports)),
  };
  const taken = await takenOf(Object.values(given));
  if (taken.length > 0) return await findRunning(given, taken, log);
  const devnet = await provideDevnet({ env, ports: at, blockTimeMs: BLOCK_TIME_MS, onLine });
  if (!("missing" in devnet)) return devnet;
  log.warn("dev.without_payments", { reason: devnet.missing });
  return undefined;
}

/**
 * Chooses the control port. If the operator's files give the facilitator's port, it tries the port after that one first.
 * A second `postern dev` with the same files looks for the control port there, and can then use this devnet.
 */
function controlPortAfter(facilitator: number | undefined, ports: Ports): Promise<number> {
  return facilitator === undefined ? ports.of("control") : freePort(facilitator + 1);
}

const USUAL_CONTROL = 8547;

/**
 * Looks for a devnet of another process at these ports, and returns its description from its control port. If it finds
 * none, logs a warning and returns undefined.
 */
async function findRunning(
  { control, ...given }: NamedPorts,
  taken: readonly number[],
  log: Logger,
): Promise<DevnetInUse | undefined> {
  const controls = control === undefined ? [USUAL_CONTROL, (given.facilitator ?? 0) + 1] : [control];
  const described = (await Promise.all(controls.map(describedAt))).find(
    (devnet) => devnet !== undefined && isAt(devnet, given),
  );
  if (described !== undefined) {
    log.info("dev.devnet_found", { rpc: described.rpcUrl, facilitator: described.facilitatorUrl });
    return { devnet: described };
  }
  const reason = `port ${taken.join(" and ")} of x402.toml is in use, so postern dev starts no devnet and uses what listens there`;
  log.warn("dev.devnet_not_started", { reason });
  return undefined;
}

function isAt({ rpcUrl, facilitatorUrl }: Devnet, { rpc, facilitator }: NamedPorts): boolean {
  return (
    (rpc === undefined || portOf(rpcUrl) === rpc) &&
    (facilitator === undefined || portOf(facilitatorUrl) === facilitator)
  );
}

async function describedAt(control: number): Promise<Devnet | undefined> {
  try {
    const answer = await fetch(`http://127.0.0.1:${control}/`, { signal: AbortSignal.timeout(ANSWER_MS) });
    const devnet = (await answer.json()) as Partial<Devnet>;
    return devnet.rpcUrl === undefined || devnet.facilitatorUrl === undefined || devnet.payers === undefined
      ? undefined
      : (devnet as Devnet);
  } catch {
    return undefined;
  }
}

async function takenOf(ports: readonly number[]): Promise<number[]> {
  const answers = await Promise.all(ports.map(isListening));
  return ports.filter((_, i) => answers[i]);
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(ANSWER_MS, () => settle(false));
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}
