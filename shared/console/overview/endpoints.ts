import { z } from "zod";
import { loadEndpointNames, type NamedEndpoint } from "../../config/endpoint-names.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import { toIso } from "../../platform/time/iso.ts";
import { ENDPOINT_STATES, type EndpointSetting, openEndpoints } from "../../queue/endpoints.ts";
import type { Partitions } from "../../redis/partition.ts";
import { count, OperatorAct } from "../view.ts";
import { EndpointCounts, EndpointFlow, type FlowApi, type FlowSpan } from "./flow.ts";

/** A webhook endpoint: its configuration without secrets, its state, and its requests of the last 24 hours. */
export const EndpointView = z
  .object({
    path: z.string(),
    /**
     * False for an endpoint that is no longer in webhooks.toml, but had requests in the last 24 hours or has a stored
     * state.
     */
    configured: z.boolean(),
    name: z.string().nullable(),
    preset: z.string().nullable(),
    /** Authentication mode. Null if the endpoint is not configured. */
    auth: z.string().nullable(),
    /** Indexes of the endpoint's jobs. */
    jobs: z.array(count),
    state: z.enum(ENDPOINT_STATES),
    /** The act of the operator who disabled or held the endpoint; null if it is enabled. */
    set: OperatorAct.nullable(),
    /** Calls that wait until the endpoint is enabled. */
    held: count,
    counts: EndpointCounts,
  })
  .meta({ id: "Endpoint" });
export type EndpointView = z.infer<typeof EndpointView>;

/** An endpoint with its settings and its requests over time. */
export const EndpointDetail = EndpointView.extend({
  /** URL of the endpoint for its sender; null if the endpoint is not configured. */
  url: z.string().nullable(),
  /** Keys of webhooks.toml that hold no secret, with their values as JSON. */
  settings: z.record(z.string(), z.string()),
  flow: EndpointFlow,
}).meta({ id: "EndpointDetail" });
export type EndpointDetail = z.infer<typeof EndpointDetail>;

export type EndpointsApi = {
  /** Shows an endpoint that `list` returns. Throws `request.not_found` for any other path. */
  show(path: string, span: FlowSpan): Promise<EndpointDetail>;
  /**
   * Lists the configured endpoints in the order of webhooks.toml, and then other endpoints that have counts or a
   * stored state.
   */
  list(): Promise<EndpointView[]>;
};

type Deps = { partitions: Partitions; configDir: string; flow: Pick<FlowApi, "endpoint" | "endpoints"> };

/**
 * Lists the webhook endpoints. Reads webhooks.toml each time. So it shows the configuration that a gateway would have
 * if it started now.
 */
export function createEndpointsApi({ partitions, configDir, flow: flows }: Deps): EndpointsApi {
  const endpoints = openEndpoints(partitions);

  async function list(): Promise<EndpointView[]> {
    const [counts, settings] = await Promise.all([flows.endpoints(), endpoints.settings()]);
    const configured = loadEndpointNames(configDir) ?? [];
    const known = new Set(configured.map(({ path }) => path));
    const others = new Set([...counts.keys(), ...settings.keys()].filter((path) => !known.has(path)));
    const all = [...configured.map(toConfigured), ...[...others].sort().map(toStranger)];
    const held = await endpoints.held(all.map(({ path }) => path));
    return all.map((endpoint, i) => ({
      ...endpoint,
      ...toSetting(settings.get(endpoint.path)),
      held: held[i] ?? 0,
      counts: counts.get(endpoint.path) ?? NONE,
    }));
  }

  return {
    list,
    async show(path, span) {
      const [all, flow] = await Promise.all([list(), flows.endpoint(path, span)]);
      const found = all.find((each) => each.path === path);
      if (found === undefined)
        throw AppError.public("request.not_found", `no endpoint has the path ${path}, and none had requests`);
      const { url = null, settings = {} } =
        (loadEndpointNames(configDir) ?? []).find((each) => each.path === path) ?? {};
      return { ...found, url, settings, flow };
    },
  };
}

type Named = Omit<EndpointView, "state" | "set" | "held" | "counts">;

function toConfigured({ path, name, preset, auth, jobs }: NamedEndpoint): Named {
  return { path, configured: true, name: name ?? null, preset: preset ?? null, auth, jobs: [...jobs] };
}

function toStranger(path: string): Named {
  return { path, configured: false, name: null, preset: null, auth: null, jobs: [] };
}

function toSetting(setting: EndpointSetting | undefined): Pick<EndpointView, "state" | "set"> {
  if (setting === undefined) return { state: "enabled", set: null };
  const { state, at, by, reason } = setting;
  return { state, set: { at: toIso(at), by, reason } };
}

const NONE: EndpointCounts = {
  accepted: 0,
  replayed: 0,
  dropped: 0,
  handshakes: 0,
  refused: {},
  unauthorized: {},
  unauthorized_newest: {},
};
