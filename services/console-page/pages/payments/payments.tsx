import { useOverview } from "../../api/overview.ts";
import { notDoneIn } from "../../api/payments.ts";
import { Live } from "../../ui/live.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Segments } from "../../ui/segments.tsx";
import { useQuery } from "../../url-fragment.ts";
import { AuditView } from "./audit.tsx";
import { PaymentList } from "./list.tsx";
import { PricesView } from "./prices.tsx";
import { RefundsView } from "./refunds.tsx";
import { RevenueView } from "./revenue.tsx";

const VIEWS = [
  { value: "list", name: "Payments" },
  { value: "revenue", name: "Revenue" },
  { value: "refunds", name: "Refunds" },
  { value: "prices", name: "Prices and rates" },
  { value: "audit", name: "Match with chain" },
] as const;

const SHOWN = {
  list: PaymentList,
  revenue: RevenueView,
  refunds: RefundsView,
  prices: PricesView,
  audit: AuditView,
};

/**
 * Payments page. Its views show the list of payments, the revenue, the refunds, the prices, and the comparison with the
 * chain.
 */
export function PaymentsPage() {
  const [query, change] = useQuery();
  const overview = useOverview();
  const refunds = overview.data && notDoneIn(overview.data.payments.refunds);
  const view = VIEWS.find(({ value }) => value === query.get("view"))?.value ?? "list";
  const Shown = SHOWN[view];
  return (
    <>
      <PageHead title="Payments" live={<Live answer={overview} />}>
        <Segments
          label="View"
          options={VIEWS.map((each) => (each.value === "refunds" ? { ...each, waiting: refunds } : each))}
          value={view}
          onChange={(value) => change({ view: value === "list" ? "" : value })}
        />
      </PageHead>
      <Shown />
    </>
  );
}
