import { z } from "zod";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { wellFormedJson } from "../platform/text/well-formed-json.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import { askAll, askReachable } from "../redis/merge.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { assertReady } from "../redis/ready.ts";
import { flag, integer } from "../redis/reply.ts";
import enableEndpointLua from "./enable-endpoint.lua";
import { type ChangeOutcome, openIntents, RELEASED_AT_ONCE, RESUMED } from "./intents.ts";
import { QUEUE_CONSTANTS } from "./lua-constants.ts";
import setEndpointLua from "./set-endpoint.lua";

/** `disabled`: the gateway refuses webhooks. `held`: it accepts them, and their calls wait until the endpoint is enabled. */
export const ENDPOINT_STATES = ["enabled", "disabled", "held"] as const;
export type EndpointState = (typeof ENDPOINT_STATES)[number];

/** An operator's setting of an endpoint. An enabled endpoint has no setting. */
const EndpointSetting = z.object({
  state: z.enum(ENDPOINT_STATES),
  /** Unix ms. */
  at: z.number(),
  by: z.string(),
  reason: z.string(),
});
export type EndpointSetting = z.infer<typeof EndpointSetting>;

const ACTIONS = { enabled: "enable", disabled: "disable", held: "hold" } as const;

/** Author, time and reason of a change. */
type Why = { at: number; by: string; reason: string };

/** Builds the line of the audit log for a change. */
export function endpointAct(path: string, state: EndpointState, { at, by, reason }: Why) {
  return { at, action: ACTIONS[state], path, by, selection: "by path", reason } satisfies AuditEntry;
}

const SET = defineScript({
  source: setEndpointLua,
  keys: "endpoints, intents, acts, repeats, actCount",
  args: "path, state, setting, line",
  constants: { AUDIT },
  proof: "needed",
  reply: flag,
});

const ENABLE = defineScript({
  source: enableEndpointLua,
  keys: "endpoints, intents, resumed, acts, repeats, actCount",
  args: "prefix, path, line",
  constants: { ...QUEUE_CONSTANTS, AUDIT, RESUMED, RELEASED_AT_ONCE },
  proof: "needed",
  reply: integer,
});

/**
 * Reads the settings of operators, by path. If a setting cannot be parsed, a later release has probably written it. The
 * endpoint then counts as disabled.
 */
export function createReadEndpointSettings({ redis, keys }: Partition) {
  return async () => toSettings(Object.entries(await redis.hgetall(keys.endpoints)));
}

/** Parses stored settings, by path. */
export function toSettings(stored: readonly (readonly [path: string, json: string])[]) {
  return new Map(stored.map(([path, json]): [string, EndpointSetting] => [path, toSetting(json)]));
}

function toSetting(json: string): EndpointSetting {
  const read = EndpointSetting.safeParse(parseJson(json));
  return read.data ?? { state: "disabled", at: 0, by: "?", reason: "the setting cannot be read" };
}

/**
 * Sets the states of endpoints in partition 0, and then copies them to the others. Gateways read the states before they
 * accept their first request, and then once a second.
 */
export function openEndpoints(partitions: Partitions) {
  const { redis, keys, prefix } = partitions.control;
  const intents = openIntents(partitions);
  const [set, enable] = [SET.on(redis), ENABLE.on(redis)];

  /**
   * Enables an endpoint, and releases its held calls step by step. If this process dies, or an operator disables or holds the
   * endpoint in the meantime, the remaining calls stay held.
   */
  async function enableFully(path: string, why: Why): Promise<boolean> {
    const act = endpointAct(path, "enabled", why);
    const touched = {
      endpoints: keys.endpoints,
      intents: keys.intents,
      resumed: keys.resumed,
      ...actKeys(keys, act),
    };
    const first = await enable(touched, { prefix, path, line: toLine(act) });
    for (let left = first; left > 0; ) {
      failpoint("operator.after_released");
      left = await enable(touched, { prefix, path, line: "" });
    }
    return first >= 0;
  }

  async function setIn0(path: string, state: EndpointState, why: Why): Promise<boolean> {
    if (state === "enabled") return enableFully(path, why);
    const act = endpointAct(path, state, why);
    const { at, by, reason } = why;
    const setting = wellFormedJson({ state, at, by, reason } satisfies EndpointSetting);
    const touched = { endpoints: keys.endpoints, intents: keys.intents, ...actKeys(keys, act) };
    return set(touched, { path, state, setting, line: toLine(act) });
  }

  return {
    settings: createReadEndpointSettings(partitions.control),

    /** Counts the calls that each of these endpoints holds. */
    async held(paths: readonly string[]): Promise<number[]> {
      const counts = await askAll(partitions, (each) =>
        Promise.all(paths.map((path) => each.redis.llen(each.keys.heldCalls(path)))),
      );
      return paths.map((_, i) => counts.reduce((sum, ofPartition) => sum + (ofPartition[i] ?? 0), 0));
    },

    /** Counts the calls that an endpoint holds in the partitions that are reachable now. */
    async heldNow(path: string): Promise<number> {
      const { answers } = await askReachable(partitions, async ({ redis: at, keys: its }) => {
        assertReady(at);
        return await at.llen(its.heldCalls(path));
      });
      return [...answers.values()].reduce((sum, held) => sum + held, 0);
    },

    /** Sets the state and writes the line of the audit log. Changes nothing if the endpoint already has the state. */
    async set(path: string, state: EndpointState, why: Why): Promise<ChangeOutcome> {
      const changed = await setIn0(path, state, why);
      return { changed, unreached: await intents.spread() };
    },
  };
}
