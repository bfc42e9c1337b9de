import type { EndpointOrder, EndpointTest, EndpointTested } from "../../../shared/console/endpoint-states.ts";
import type { PricesView } from "../../../shared/console/overview/prices.ts";
import { request } from "./ask.ts";

export type {
  EndpointDetail,
  EndpointView as Endpoint,
} from "../../../shared/console/overview/endpoints.ts";
export type { SoldJobView as SoldJob } from "../../../shared/console/overview/prices.ts";

export type { EndpointTested };

export type Rate = PricesView["rates"][number];

export const setEndpointState = (order: EndpointOrder): Promise<unknown> =>
  request("POST", "api/v1/endpoints/state", order);

export const testEndpoint = (test: EndpointTest): Promise<EndpointTested> =>
  request("POST", "api/v1/endpoints/test", test);
