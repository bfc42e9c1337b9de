import { z } from "zod";
import { loadEndpointNames, type NamedEndpoint } from "../../config/endpoint-names.ts";
import { count } from "../view.ts";
import { EndpointCounts, type FlowApi } from "./flow.ts";

/** A webhook endpoint as configured, without secrets, with its requests of the last 24 hours. */
export const EndpointView = z
  .object({
    path: z.string(),
    /** False of one that had requests and is no longer in webhooks.toml. */
    configured: z.boolean(),
    name: z.string().nullable(),
    preset: z.string().nullable(),
    /** How a sender proves who it is; null of one that is not configured. */
    auth: z.string().nullable(),
    /** The job indexes that it calls. */
    jobs: z.array(count),
    counts: EndpointCounts,
  })
  .meta({ id: "Endpoint" });
export type EndpointView = z.infer<typeof EndpointView>;

export type EndpointsApi = {
  /** Those that are configured, in the order of the file, then the others. */
  list(): Promise<EndpointView[]>;
};

/** Lists the webhook endpoints. It reads the file each time, so it shows what the next start will use. */
export function createEndpointsApi({
  configDir,
  flow,
}: {
  configDir: string;
  flow: Pick<FlowApi, "endpoints">;
}): EndpointsApi {
  return {
    async list() {
      const counts = await flow.endpoints();
      const configured = loadEndpointNames(configDir) ?? [];
      const known = new Set(configured.map(({ path }) => path));
      const others = [...counts.keys()].filter((path) => !known.has(path)).sort();
      return [
        ...configured.map((endpoint) => toView(endpoint, counts.get(endpoint.path))),
        ...others.map((path) => toStranger(path, counts.get(path))),
      ];
    },
  };
}

function toView({ path, name, preset, auth, jobs }: NamedEndpoint, counts = NONE): EndpointView {
  return {
    path,
    configured: true,
    name: name ?? null,
    preset: preset ?? null,
    auth,
    jobs: [...jobs],
    counts,
  };
}

function toStranger(path: string, counts = NONE): EndpointView {
  return { path, configured: false, name: null, preset: null, auth: null, jobs: [], counts };
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
