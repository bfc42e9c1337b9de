import { setTimeout as delay } from "node:timers/promises";
import { at, type Topology } from "./topology.ts";

/**
 * An event that hits the primary and its replicas under load. A supervisor restarts a killed server with the same
 * settings.
 */
export type FailoverEvent = (redis: Topology) => Promise<void>;

/** Returns the ports of the replicas that are attached to this server. */
async function replicasOf(port: number): Promise<number[]> {
  const info = await at(port, (client) => client.info("replication"));
  return [...info.matchAll(/^slave\d+:ip=[^,]*,port=(\d+)/gm)].map(([, replica]) => Number(replica));
}

/** Detaches replicas by removing their right to log in. They stay detached until the right is restored. */
async function detachReplicas(
  primaryPort: number,
  ports: readonly number[],
  work: () => Promise<void>,
): Promise<void> {
  const login = (user: string, password: string) =>
    Promise.all(
      ports.map((port) =>
        at(port, (client) => client.call("CONFIG", "SET", "masteruser", user, "masterauth", password)),
      ),
    );
  await login("nobody", "wrong");
  await at(primaryPort, (client) => client.call("CLIENT", "KILL", "TYPE", "replica"));
  await work();
  await login("", "");
}

export const WAYS = {
  async "was killed while its replicas were cut off"(redis) {
    const old = await redis.primary();
    const { port } = old;
    await detachReplicas(port, await replicasOf(port), async () => {
      await delay(700);
      await old.kill("SIGKILL");
    });
    await redis.untilTakenOver(port);
    await old.restart();
  },
  async "stood still"(redis) {
    const old = await redis.primary();
    process.kill(old.pid, "SIGSTOP");
    await redis.untilTakenOver(old.port);
    process.kill(old.pid, "SIGCONT");
  },
  "was exchanged by an operator": (redis) => redis.failOver(),
  async "was killed"(redis) {
    const old = await redis.primary();
    await old.kill("SIGKILL");
    await redis.untilTakenOver(old.port);
    await old.restart();
  },
  async "was killed together with a replica"(redis) {
    const old = await redis.primary();
    const [port] = await replicasOf(old.port);
    const replica = redis.servers.find((server) => server.port === port);
    await Promise.all([old.kill("SIGKILL"), replica?.kill("SIGKILL")]);
    await delay(1500);
    await Promise.all([old.restart(), replica?.restart()]);
  },
  async "lost a replica for some seconds"(redis) {
    const { port } = await redis.primary();
    const [first = 0] = await replicasOf(port);
    await detachReplicas(port, [first], () => delay(1500));
    // This server has refused the login on purpose, so the entry must not count as a missing right.
    await at(port, (client) => client.call("ACL", "LOG", "RESET"));
  },
  async "lost its scripts and all connections"(redis) {
    const { port } = await redis.primary();
    for (let i = 0; i < 5; i++) {
      await at(port, (client) => client.script("FLUSH"));
      await at(port, (client) => client.call("CLIENT", "KILL", "TYPE", "normal"));
      await delay(100);
    }
  },
} as const satisfies Readonly<Record<string, FailoverEvent>>;

export type WayName = keyof typeof WAYS;
