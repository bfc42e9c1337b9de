import { useQuery } from "../../route.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Segments } from "../../ui/segments.tsx";
import { AuditTrail } from "./audit-trail.tsx";
import { EndpointsView } from "./configured.tsx";
import { JobsView } from "./jobs.tsx";
import { PricesView } from "./prices.tsx";
import { RejectedView } from "./rejected.tsx";

const VIEWS = [
  { value: "endpoints", name: "Endpoints" },
  { value: "jobs", name: "Jobs" },
  { value: "rejected", name: "Refused requests" },
  { value: "prices", name: "Prices and rates" },
  { value: "audit", name: "Audit trail" },
] as const;

const SHOWN = {
  endpoints: EndpointsView,
  jobs: JobsView,
  rejected: RejectedView,
  prices: PricesView,
  audit: AuditTrail,
};

/** What is configured, never a secret; what waits at each job; and why requests were refused. */
export function EndpointsPage() {
  const [query, change] = useQuery();
  const view = VIEWS.find(({ value }) => value === query.get("view"))?.value ?? "endpoints";
  const Shown = SHOWN[view];
  return (
    <>
      <PageHead title="Endpoints and jobs">
        <Segments
          label="View"
          options={VIEWS}
          value={view}
          onChange={(value) => change({ view: value === "endpoints" ? "" : value })}
        />
      </PageHead>
      <Shown />
    </>
  );
}
