import { spawnSync } from "node:child_process";
import type { Part } from "../../shared/dev/process.ts";
import { compiled } from "../support/build.ts";
import { roundsByTurns, TURNS, toSide } from "../support/compare.ts";
import { type Counts, countAgain } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { rssBytesOf } from "../support/proc.ts";
import { type Round, timed } from "../support/round.ts";
import type { Setup } from "../support/setup.ts";
import { mebibytes, table } from "../support/table.ts";
import { inWorld, type World } from "../support/world.ts";

type NodeRound = Round & { rssMib: number };

export type NodesFigures = Counts & {
  byNode: readonly (NodeRound & { node: string; rounds: readonly NodeRound[] })[];
};

/** The gateway on several releases of Node, or with several arguments of Node, by turns on the same Redis. */
export function measureNodes({ quick, rounds, nodeArgs, nodes }: Setup): Promise<NodesFigures> {
  const size = quick ? { warmUp: 400, calls: 1000 } : { warmUp: 800, calls: 3200 };
  return inWorld([], async (world) => {
    const gateways: Record<string, Part> = {};
    for (const command of nodes)
      gateways[nameOf(command)] = await startOn(world, [...command.split(" "), ...nodeArgs]);
    const oneTurn = (server: Part) => async (): Promise<NodeRound> => {
      const send = () => load({ address: server.address, withIds: false, ...size });
      const round = await timed({ redis: world.redis, server, size }, send);
      return { ...round, rssMib: mebibytes(rssBytesOf(server.process.pid)) };
    };
    const turns = Object.fromEntries(Object.entries(gateways).map(([name, part]) => [name, oneTurn(part)]));
    const compared = await roundsByTurns(rounds, turns);
    await Promise.all(Object.values(gateways).map((part) => part.kill()));
    const byNode = Object.entries(compared).map(([node, each]) => ({ node, ...toSide(each) }));
    const accepted = byNode.length * rounds * TURNS * (size.warmUp + size.calls);
    return { byNode, ...(await countAgain(world, accepted)) };
  });
}

/** The gateway of this build, by another Node. */
function startOn({ stack }: World, [node = process.execPath, ...nodeArgs]: readonly string[]): Promise<Part> {
  const entry = [...nodeArgs, compiled("services/cli/main.ts")];
  const args = ["--bind-address", "127.0.0.1:0", "--service-id", "1"];
  return stack.start("webhooks", { name: `gateway-${started++}`, node, entry, args });
}

/** Each gateway logs to a file of its own. */
let started = 0;

/** The version that a command has, and its arguments. */
function nameOf(command: string): string {
  const [node = "", ...args] = command.split(" ");
  const { stdout, error } = spawnSync(node, ["--version"], { encoding: "utf8" });
  if (error !== undefined) throw error;
  return [stdout.trim(), ...args].join(" ");
}

export function nodesTable({ byNode }: NodesFigures): string {
  return table(
    ["Node", "calls/s", "p50 ms", "p99 ms", "cpu µs/request", "lowest", "highest", "RSS MiB"],
    byNode.map(({ node, perSecond, p50Ms, p99Ms, cpuUs, rssMib, rounds }) => {
      const all = rounds.map((round) => round.cpuUs);
      return [node, perSecond, p50Ms, p99Ms, cpuUs, Math.min(...all), Math.max(...all), rssMib];
    }),
  );
}
