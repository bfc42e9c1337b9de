import type { ComponentType } from "preact";
import { AuditLogPage } from "./pages/audit-log/audit-log.tsx";
import { CallPage } from "./pages/calls/call.tsx";
import { CallsPage } from "./pages/calls/calls.tsx";
import { EndpointPage } from "./pages/endpoints/endpoint.tsx";
import { EndpointsPage } from "./pages/endpoints/endpoints.tsx";
import { FailedPage } from "./pages/failed/failed.tsx";
import { JobPage } from "./pages/jobs/job.tsx";
import { JobsPage } from "./pages/jobs/jobs.tsx";
import { OverviewPage } from "./pages/overview/overview.tsx";
import { PaymentPage } from "./pages/payments/payment.tsx";
import { PaymentsPage } from "./pages/payments/payments.tsx";
import { RefusedPage } from "./pages/refused/refused.tsx";

type Page = {
  /** First part of the path in the URL's fragment, as `failed` in `#/failed`. */
  name: string;
  title: string;
  /** The page opens when the user presses `g` and then this letter. */
  letter: string;
  /** Drawing of the icon, as the path of an SVG of 20×20. */
  icon: string;
  component: ComponentType;
  /** Component that shows one item, such as a call. It is used if more parts follow in the path, which are the item's id. */
  detail?: ComponentType;
};

/** The pages, in the order of the navigation. */
export const PAGES: readonly Page[] = [
  {
    name: "overview",
    title: "Overview",
    letter: "o",
    icon: "M2 10h3l2.5-6 4 12L14 10h4",
    component: OverviewPage,
  },
  {
    name: "calls",
    title: "Calls",
    letter: "c",
    icon: "M4 5h12M4 10h12M4 15h7",
    component: CallsPage,
    detail: CallPage,
  },
  {
    name: "failed",
    title: "Failed",
    letter: "x",
    icon: "M10 3 2.5 16.5h15zM10 8v4M10 14.2v.3",
    component: FailedPage,
  },
  {
    name: "refused",
    title: "Refused",
    letter: "r",
    icon: "M10 3a7 7 0 1 0 0 14 7 7 0 1 0 0-14M5.2 5.2l9.6 9.6",
    component: RefusedPage,
  },
  {
    name: "payments",
    title: "Payments",
    letter: "p",
    icon: "M2.5 5.5h15v9h-15zM2.5 8.5h15M5.5 12h3",
    component: PaymentsPage,
    detail: PaymentPage,
  },
  {
    name: "jobs",
    title: "Jobs",
    letter: "j",
    icon: "M3 4h14v4H3zM3 12h14v4H3zM6 6h.1M6 14h.1",
    component: JobsPage,
    detail: JobPage,
  },
  {
    name: "endpoints",
    title: "Endpoints",
    letter: "e",
    icon: "M3 6h8m0 0a2.5 2.5 0 1 0 5 0 2.5 2.5 0 1 0-5 0M17 14H9m0 0a2.5 2.5 0 1 0-5 0 2.5 2.5 0 1 0 5 0",
    component: EndpointsPage,
    detail: EndpointPage,
  },
  {
    name: "audit",
    title: "Audit log",
    letter: "a",
    icon: "M5 2.5h8l3 3v12H5zM8 8h5M8 11h5M8 14h3",
    component: AuditLogPage,
  },
];
