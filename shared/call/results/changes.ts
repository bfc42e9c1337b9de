import { setImmediate as nextTurn } from "node:timers/promises";
import { connectBeside } from "../../redis/connect.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { list, text } from "../../redis/reply.ts";
import versionsOfCallsLua from "./versions-of-calls.lua";

/*
 * How processes learn that a call's state, progress or result has changed: whatever changes it publishes the call's id, in the step that
 * changes it (tell-change.lua). A message says nothing else. It may be lost, so watched calls are also looked through every few seconds.
 */

/** How often all watched calls are looked through. */
const SWEEP_EVERY_MS = 5000;
/** So many in one command, and one command at a time. */
const SWEPT_AT_ONCE = 100;
/** After so long without an answer the connection that listens is dead. */
const SILENT_MS = 2000;

const VERSIONS_OF_CALLS = defineScript({
  source: versionsOfCallsLua,
  keys: "...calls(record, result, progress)",
  proof: "reads",
  reply: list(text),
});

type Watched = {
  /** As the last look through all calls found it; undefined before the first. */
  version: string | undefined;
  readonly watchers: Set<() => void>;
};

export type Changes = {
  /**
   * Calls `onChange` whenever the call may have changed, until the function that it answers is called. Who begins to watch looks at the
   * call after that. `onChange` must not throw.
   */
  watch(callId: string, onChange: () => void): () => void;
  /** Ends the timer and the connection. */
  close(): void;
};

type Options = { sweepEveryMs?: number };

/**
 * Watches calls of a partition, over one more connection, which is opened with the first watcher and kept. After that connection was
 * lost, all watched calls are looked through at once.
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
  let isToSweepAgain = false;
  let isClosed = false;

  function tell(id: string): void {
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
      tell(id);
    }
  }

  /** Tells of each call that is another one than at the last look. If Redis cannot be asked, the next look makes up for it. */
  async function sweep(): Promise<void> {
    isToSweepAgain = isSweeping;
    if (isSweeping) return;
    isSweeping = true;
    const ids = [...calls.keys()];
    try {
      for (let i = 0; i < ids.length && !isClosed; i += SWEPT_AT_ONCE) {
        await sweepBatch(ids.slice(i, i + SWEPT_AT_ONCE));
        await nextTurn();
      }
    } catch {
      // Redis is away, and `listener` looks again once it is back
    }
    isSweeping = false;
    if (isToSweepAgain) await sweep();
  }

  function onTime(): void {
    listener?.check();
    void sweep();
  }

  return {
    watch(callId, onChange) {
      listener ??= listen(partition, tell, () => void sweep());
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

/** Tells of each id that is published, and when it has begun to hear of them, at first or again. */
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
    /** A connection may be dead without having closed. */
    check(): void {
      if (connection.status === "ready") connection.ping().catch(reconnect);
    },
    close: () => connection.disconnect(),
  };
}
