import type { PricesView } from "../../../shared/console/overview/prices.ts";

export type { EndpointView as Endpoint } from "../../../shared/console/overview/endpoints.ts";
export type { SoldJobView as SoldJob } from "../../../shared/console/overview/prices.ts";

export type Rate = PricesView["rates"][number];
