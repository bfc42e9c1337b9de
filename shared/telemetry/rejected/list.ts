import type { ErrorCode } from "../../platform/errors/codes.ts";
import { type Clock, systemClock } from "../../platform/time/clock.ts";
import type { Partition } from "../../redis/partition.ts";
import { reasonOf } from "../../webhook-auth/rejected.ts";
import { type RejectedEntry, timesOf } from "./entry.ts";
import { REJECTED_KEPT_MS, UNKNOWN } from "./record.ts";

/** A refused request as it was recorded. */
export type RejectedRequest = RejectedEntry & {
  /** The path of the endpoint that refused the request; undefined if no endpoint had the request's path. */
  endpoint: string | undefined;
};

/** Selects requests that match every field that is set. */
export type RejectedFilter = {
  /** Refused by the endpoint with this path. */
  path?: string | undefined;
  /** Sent to a path that no endpoint has. */
  unknown?: boolean | undefined;
  /** Unix ms. */
  since?: number | undefined;
  code?: ErrorCode | undefined;
  /** Reason of the refusal, without the detail that follows after a colon. */
  reason?: string | undefined;
};

/**
 * Summary of the refused requests of one endpoint with the same code and reason. The details after the colon of their
 * reasons may differ.
 */
export type RejectedGroup = {
  endpoint: string | undefined;
  code: ErrorCode;
  reason: string;
  count: number;
  /** Time of the oldest request that is still stored. */
  oldestAt: number;
  newestAt: number;
};

/** Creates functions that read the refused requests that record.ts has stored. */
export function createRejectedList({ redis, keys }: Partition, clock: Clock = systemClock) {
  async function placesOf({ path, unknown }: RejectedFilter): Promise<string[]> {
    if (unknown) return [UNKNOWN];
    if (path === UNKNOWN) return []; // no endpoint can have this path
    return path === undefined ? redis.hkeys(keys.rejectedBytes) : [path];
  }

  /** Reads the requests to one endpoint, or those to all paths that no endpoint has, newest first. */
  async function read(place: string, from: number, to: number): Promise<RejectedRequest[]> {
    const stored = await redis.zrevrangebyscore(keys.rejected(place), to, from);
    return stored.map((text) => ({
      ...(JSON.parse(text) as RejectedEntry),
      endpoint: place === UNKNOWN ? undefined : place,
    }));
  }

  return {
    /** Counts the matching requests, and returns the newest `limit` of those that are older than `after`, newest first. */
    async matching(filter: RejectedFilter, limit: number, after?: Pick<RejectedEntry, "at" | "id">) {
      const from = Math.max(filter.since ?? 0, clock() - REJECTED_KEPT_MS);
      let newest: RejectedRequest[] = [];
      let count = 0;
      for (const place of await placesOf(filter)) {
        const found = await read(place, from, Number.MAX_SAFE_INTEGER);
        const matching = found.filter((each) => matches(each, filter));
        count += matching.length;
        const beyond = matching.filter((each) => after === undefined || newestFirst(after, each) < 0);
        newest = [...newest, ...beyond].sort(newestFirst).slice(0, limit);
      }
      return { count, newest };
    },

    /** Groups the matching requests by endpoint, code and reason. */
    async groups(filter: RejectedFilter): Promise<RejectedGroup[]> {
      const from = Math.max(filter.since ?? 0, clock() - REJECTED_KEPT_MS);
      const groups = new Map<string, RejectedGroup>();
      for (const place of await placesOf(filter)) {
        for (const request of await read(place, from, Number.MAX_SAFE_INTEGER)) {
          if (!matches(request, filter)) continue;
          const { endpoint, code, at } = request;
          const reason = reasonOf(request.reason);
          const key = JSON.stringify([place, code, reason]);
          const { count = 0, oldestAt = at, newestAt = at } = groups.get(key) ?? {};
          const times = { oldestAt: Math.min(oldestAt, at), newestAt: Math.max(newestAt, at) };
          groups.set(key, { endpoint, code, reason, count: count + 1, ...times });
        }
      }
      return [...groups.values()];
    },

    /**
     * Finds the requests whose ids begin with this text. A whole id finds at most one request, and none once its entry
     * is deleted.
     */
    async find(beginning: string): Promise<RejectedRequest[]> {
      const { from, to } = timesOf(beginning);
      const found: RejectedRequest[] = [];
      for (const place of await placesOf({})) {
        const ofTheTime = await read(place, from, to);
        found.push(...ofTheTime.filter(({ id }) => id.startsWith(beginning)));
      }
      return found;
    },
  };
}

function matches({ code, reason }: RejectedEntry, filter: RejectedFilter): boolean {
  if (filter.code !== undefined && code !== filter.code) return false;
  return filter.reason === undefined || reasonOf(reason) === filter.reason;
}

function newestFirst(a: Pick<RejectedEntry, "at" | "id">, b: Pick<RejectedEntry, "at" | "id">): number {
  return b.at - a.at || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}
