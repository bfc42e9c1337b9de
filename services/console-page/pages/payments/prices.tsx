import type { Rate, SoldJob } from "../../api/endpoints.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { amountText, decimalText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { JobName } from "../../ui/job-name.tsx";
import { Live, StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { SpanChoice, useSpan } from "../../ui/span.tsx";
import { duration } from "../../ui/time.tsx";
import { RateChart } from "./rate-chart.tsx";

/** Shows the rate of each token, with its source and age, and the prices of the jobs in each token. */
export function PricesView() {
  const span = useSpan();
  const answer = useAnswer("api/v1/prices", { span }, { everyMs: 10_000 });
  const prices = answer.data;
  const hasHistory = prices?.rates.some(({ history }) => history !== null) ?? false;
  return (
    <>
      <StaleNotice answer={answer} />
      <Card
        title="Rates: tokens for one native coin"
        tools={
          <>
            {hasHistory && <SpanChoice />}
            <Live answer={answer} />
          </>
        }
        isBare
      >
        {prices?.rates.length === 0 && (
          <Empty title="No tokens accepted">
            Buyers can pay with a token once it is in <code>accepted_tokens</code> of <code>x402.toml</code>.
          </Empty>
        )}
        <ul>
          {prices?.rates.map((rate) => (
            <li class="rate" key={`${rate.network} ${rate.asset}`}>
              <RateLine rate={rate} />
            </li>
          ))}
        </ul>
      </Card>
      <Card title="Prices" isBare>
        {prices?.jobs.length === 0 && (
          <Empty title="No jobs for sale">
            Set a price in <code>job_pricing.toml</code> (see <code>docs/payments.md</code>).
          </Empty>
        )}
        {prices !== undefined && prices.jobs.length > 0 && (
          <DataTable columns={COLUMNS} items={prices.jobs} keyOf={({ job }) => job} />
        )}
      </Card>
    </>
  );
}

function RateLine({ rate }: { rate: Rate }) {
  const { symbol, network, value, offered, source, age_ms, reason, last_failure, history } = rate;
  return (
    <>
      <p class="rate-head">
        <strong>{symbol}</strong> <span class="muted">{network}</span>
        <Badge tone={offered ? "good" : "bad"}>{offered ? "accepted now" : "not accepted now"}</Badge>
        <span class="rate-value">{value ?? "no rate"}</span>
      </p>
      <RateBar rate={rate} />
      {history === null ? (
        <p class="muted small">
          Fixed by <code>rate_per_native_unit</code> in <code>x402.toml</code>. To change it, edit the file
          and restart the payment gateways.
        </p>
      ) : (
        <p class="muted small">
          {source}
          {age_ms !== null && `, read ${duration(age_ms)} ago`}
        </p>
      )}
      {reason !== null && <p class="bad-text small">{reason}</p>}
      {last_failure !== null && (
        <p class="warn-text small">
          The last read failed {duration(last_failure.age_ms)} ago: {last_failure.reason}
        </p>
      )}
      {history !== null && <RateChart rate={rate} history={history} />}
    </>
  );
}

/**
 * Draws a bar that shows where the rate is between its configured bounds. Gateways do not offer a token whose rate is
 * out of bounds.
 */
function RateBar({ rate: { min_rate, max_rate, value } }: { rate: Rate }) {
  if (min_rate === null || max_rate === null || value === null) {
    return (
      <p class="small muted">
        {min_rate === null && max_rate === null
          ? "The rate has no limits."
          : `Limits: ${min_rate ?? "none"} to ${max_rate ?? "none"}`}
      </p>
    );
  }
  const [low, high, now] = [Number(min_rate), Number(max_rate), Number(value)];
  const at = Math.min(100, Math.max(0, (100 * (now - low)) / Math.max(Number.MIN_VALUE, high - low)));
  return (
    <div class="rate-bar">
      <span class="small muted">{min_rate}</span>
      <svg
        viewBox="0 0 100 12"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${value}, between ${min_rate} and ${max_rate}`}
      >
        <title>{`${value}, between ${min_rate} and ${max_rate}`}</title>
        <rect class="rate-track" x="0" y="4" width="100" height="4" />
        <rect class="rate-mark" x={Math.min(99, at)} y="0" width="1" height="12" />
      </svg>
      <span class="small muted">{max_rate}</span>
    </div>
  );
}

const COLUMNS: readonly Column<SoldJob>[] = [
  {
    title: "Job",
    cell: ({ job, description }) => (
      <>
        <JobName job={job} />
        {description !== null && <span class="step-aside small muted">{description}</span>}
      </>
    ),
  },
  { title: "Buyers", cell: buyersText },
  {
    title: "Price in native coin",
    class: "number",
    hint: ({ price_wei }) => `${price_wei} wei`,
    cell: ({ price_wei }) => decimalText(price_wei, NATIVE_DECIMALS),
  },
  {
    title: "Token price",
    class: "number whole",
    cell: ({ offers }) =>
      offers.length === 0 ? (
        <span class="muted">no token has a rate</span>
      ) : (
        offers.map(({ network, asset, symbol, amount, decimals }) => (
          <span class="step-aside" key={`${network} ${asset}`}>
            {amountText(amount, symbol, decimals)} <span class="muted small">{network}</span>
          </span>
        ))
      ),
  },
];

/** Number of decimals of a chain's native currency. The configured prices are in wei, its smallest unit. */
const NATIVE_DECIMALS = 18;

/** Describes which payers may buy a job. */
export function buyersText({ invocation_mode: mode }: SoldJob): string {
  return MODES[mode] ?? mode;
}

const MODES: Readonly<Record<string, string>> = {
  public_paid: "everyone",
  restricted_paid: "allowed by its contract",
  disabled: "none",
};
