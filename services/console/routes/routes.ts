import type { Route } from "../route.ts";
import { auditRoutes } from "./audit.ts";
import { bulkRoutes } from "./bulk.ts";
import { callRoutes } from "./calls.ts";
import { failedRoutes } from "./failed.ts";
import { jobRoutes } from "./jobs.ts";
import { liveRoutes } from "./live.ts";
import { moneyRunRoutes } from "./money-runs.ts";
import { openApiRoute } from "./openapi.ts";
import { overviewRoutes } from "./overview.ts";
import { paymentRoutes } from "./payments.ts";
import { refundRoutes } from "./refunds.ts";
import { rejectedRoutes } from "./rejected.ts";
import { sessionRoutes } from "./session.ts";

export const ROUTES: readonly Route[] = [
  ...sessionRoutes,
  ...overviewRoutes,
  ...liveRoutes,
  ...jobRoutes,
  ...failedRoutes,
  ...bulkRoutes,
  ...callRoutes,
  ...paymentRoutes,
  ...refundRoutes,
  ...moneyRunRoutes,
  ...rejectedRoutes,
  ...auditRoutes,
  openApiRoute(() => ROUTES),
];
