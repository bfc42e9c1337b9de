import { EventEmitter } from "node:events";
import { RedisConnection } from "bullmq";
import type { Redis } from "../redis/connect.ts";

/** A script of BullMQ's, whole, as it defines it on a connection. */
export type Definition = { lua: string; numberOfKeys: number };

/** How several queues share a connection. With both skips a command fails at once while Redis is away at the start. */
export const SHARED = { shared: true, blocking: false, skipVersionCheck: true, skipWaitingForReady: true };

/** BullMQ defines its scripts on any connection that it is given. This one leads nowhere, and keeps them. */
class Recorder extends EventEmitter {
  readonly status = "end";
  readonly options = {};
  readonly definitions = new Map<string, Definition>();

  defineCommand(name: string, definition: Definition): void {
    this.definitions.set(name.split(":")[0] as string, definition);
  }

  connect(): void {}
  disconnect(): void {}
  duplicate(): this {
    return this;
  }
}

/** BullMQ's scripts, by its names of them. */
export function scriptsOfBullmq(): ReadonlyMap<string, Definition> {
  const recorder = new Recorder();
  new RedisConnection(recorder as unknown as Redis, SHARED).on("error", () => {});
  return recorder.definitions;
}
