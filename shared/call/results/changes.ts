import { setImmediate as nextTurn } from "node:timers/promises";
import { connectBeside } from "../../redis/connect.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { list, text } from "../../redis/reply.ts";
import versionsOfCallsLua from "./versions-of-calls.lua";

/*
 * Notifies processes when a call's state, progress or result has changed. The script that makes a change also publishes the
 * call's id, without the change itself (tell-change.lua). Redis may lose such a message, so all watched calls are also
 * checked every few seconds.
 */

/** Interval of the checks of all watched calls. */
const SWEEP_EVERY_MS = 5000;
/** Number of calls that one command checks. Only one command is in flight at a time. */
const SWEPT_AT_ONCE = 100;
/** Time without an answer after which the listening connection counts as dead. */
const SILENT_MS = 2000;

const VERSIONS_OF_CALLS = defineScript({
  source: versionsOfCallsLua,
  keys: "...calls(record, result, progress)",
  proof: "reads",
  reply: list(text),
});

type Watched = {
  /** Version of the call (versions-of-calls.lua) at the last check of all calls. Undefined before the first check. */
  version: string | undefined;
  readonly watchers: Set<() => void>;
};

export type Changes = {
  /**
   * Calls `onChange` each time the call may have changed, until the returned function is called. A caller must begin to watch
   * before it reads the call, so that it misses no change. `onChange` must not throw.
   */
  watch(callId: string, onChange: () => void): () => void;
  /** Stops the timer and closes the connection. */
  close(): void;
};

type Options = { sweepEveryMs?: number };

/**
 * Watches calls of a partition over one additional connection. The first watcher opens it, and it stays open. After a
 * reconnect, all watched calls are checked immediately, because messages may have been missed.
 */
export function createChanges(
  partition: Partition,
  { sweepEveryMs = SWEEP_EVERY_MS }: Options = {},
): Changes {
  const { redis, keys } = partition;
  const versionsOf = VERSIONS_OF_CALLS.on(redis);
  const calls = new Map<string, Watched>();
  let listener: ReturnType<typeof listen> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isSweeping = false;
  let mustSweepAgain = false;
  let isClosed = false;

  function notifyWatchers(id: string): void {
    for (const onChange of calls.get(id)?.watchers ?? []) onChange();
  }

  async function sweepBatch(ids: readonly string[]): Promise<void> {
    const { record, result, progress } = keys;
    const touched = ids.map((id) => ({ record: record(id), result: result(id), progress: progress(id) }));
    const versions = await versionsOf({ calls: touched });
    for (const [i, id] of ids.entries()) {
      const watched = calls.get(id);
      if (watched === undefined || watched.version === versions[i]) continue;
      watched.version = versions[i];
      notifyWatchers(id);
    }
  }

  /**
   * Notifies the watchers of each call that has changed since the last check. If Redis cannot be reached, the next check
   * finds the changes.
   */
  async function sweep(): Promise<void> {
    mustSweepAgain = isSweeping;
    if (isSweeping) return;
    isSweeping = true;
    const ids = [...calls.keys()];
    try {
      for (let i = 0; i < ids.length && !isClosed; i += SWEPT_AT_ONCE) {
        await sweepBatch(ids.slice(i, i + SWEPT_AT_ONCE));
        await nextTurn();
      }
    } catch {
      // Redis is unreachable. After the reconnect, `listener` starts a new check.
    }
    isSweeping = false;
    if (mustSweepAgain) await sweep();
  }

  function onTime(): void {
    listener?.check();
    void sweep();
  }

  return {
    watch(callId, onChange) {
      listener ??= listen(partition, notifyWatchers, () => void sweep());
      timer ??= setInterval(onTime, sweepEveryMs);
      const watched = calls.get(callId) ?? { version: undefined, watchers: new Set() };
      calls.set(callId, watched);
      watched.watchers.add(onChange);
      return () => {
        watched.watchers.delete(onChange);
        if (watched.watchers.size > 0 || calls.get(callId) !== watched) return;
        calls.delete(callId);
        if (calls.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
    close() {
      isClosed = true;
      clearInterval(timer);
      listener?.close();
    },
  };
}

/** Calls `onId` for each published id. Calls `onListening` when the subscription begins, and again after each reconnect. */
function listen({ redis, keys }: Partition, onId: (id: string) => void, onListening: () => void) {
  const connection = connectBeside(redis, {
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    commandTimeout: SILENT_MS,
    retryStrategy: (attempt: number) => Math.min(50 * 2 ** attempt, 1000),
  });
  connection.on("message", (_channel: string, ids: string) => {
    for (const id of ids.split(" ")) onId(id);
  });
  const reconnect = (): void => connection.disconnect(true);
  connection.on("ready", () => {
    connection.subscribe(keys.changes).then(onListening, reconnect);
  });
  return {
    /** Pings the connection, because a dead connection may not have been closed. Without an answer, it is opened again. */
    check(): void {
      if (connection.status === "ready") connection.ping().catch(reconnect);
    },
    close: () => connection.disconnect(),
  };
}
