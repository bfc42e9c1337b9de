import type { Prices, Rate, SoldJob } from "../../api/endpoints.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { amountText, decimalText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { Live, WhyNot } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { SpanChoice, useSpan } from "../../ui/span.tsx";
import { duration } from "../../ui/time.tsx";
import { RateChart } from "./rate-chart.tsx";

/** What each token is worth, by whom and how old that is, and what jobs cost in it. */
export function PricesView() {
  const span = useSpan();
  const answer = useAnswer<Prices>("api/v1/prices", { span }, { everyMs: 10_000 });
  const prices = answer.data;
  const hasHistory = prices?.rates.some(({ history }) => history !== null) ?? false;
  return (
    <>
      <WhyNot answer={answer} />
      <Card
        title="Rates: tokens for one of the native coin"
        tools={
          <>
            {hasHistory && <SpanChoice />}
            <Live answer={answer} />
          </>
        }
        isBare
      >
        {prices?.rates.length === 0 && (
          <Empty title="No token is accepted">
            <code>accepted_tokens</code> in <code>x402.toml</code> lists what buyers may pay with.
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
          <Empty title="No job is sold">
            Give one a price in <code>job_pricing.toml</code>, as <code>docs/payments.md</code> shows.
          </Empty>
        )}
        {prices !== undefined && prices.jobs.length > 0 && <PriceTable jobs={prices.jobs} />}
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
        <Badge tone={offered ? "good" : "bad"}>{offered ? "offered" : "not offered"}</Badge>
        <span class="rate-value">{value ?? "no rate"}</span>
      </p>
      <RateBar rate={rate} />
      {history === null ? (
        <p class="muted small">
          Fixed by <code>rate_per_native_unit</code> in <code>x402.toml</code>: it changes when the gateways
          are started with another one.
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
          The last reading failed {duration(last_failure.age_ms)} ago: {last_failure.reason}
        </p>
      )}
      {history !== null && <RateChart rate={rate} history={history} />}
    </>
  );
}

/** Where the rate lies between the bounds that an operator has set. Outside of them the token is not offered. */
function RateBar({ rate: { min_rate, max_rate, value } }: { rate: Rate }) {
  if (min_rate === null || max_rate === null || value === null) {
    return (
      <p class="small muted">
        {min_rate === null && max_rate === null
          ? "No bounds are set."
          : `Bounds: ${min_rate ?? "none"} to ${max_rate ?? "none"}`}
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

function PriceTable({ jobs }: { jobs: readonly SoldJob[] }) {
  return (
    <div class="table-box">
      <table class="stack">
        <thead>
          <tr>
            <th scope="col">Job</th>
            <th scope="col">Who may buy</th>
            <th scope="col" class="number">
              In the native coin
            </th>
            <th scope="col" class="number">
              In tokens, now
            </th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <PriceRow key={job.job} sold={job} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function PriceRow({
  sold: { job, name, description, invocation_mode, price_wei, offers },
}: {
  sold: SoldJob;
}) {
  return (
    <tr>
      <td>
        {job} {name !== null && <strong>{name}</strong>}
        {description !== null && <span class="step-aside small muted">{description}</span>}
      </td>
      <td data-label="Who may buy">{MODES[invocation_mode] ?? invocation_mode}</td>
      <td class="number" data-label="In the native coin" title={`${price_wei} wei`}>
        {decimalText(price_wei, NATIVE_DECIMALS)}
      </td>
      <td class="number whole" data-label="In tokens, now">
        {offers.length === 0 && <span class="muted">no token has a rate</span>}
        {offers.map(({ network, asset, symbol, amount, decimals }) => (
          <span class="step-aside" key={`${network} ${asset}`}>
            {amountText(amount, symbol, decimals)} <span class="muted small">{network}</span>
          </span>
        ))}
      </td>
    </tr>
  );
}

/** Prices are in wei. */
const NATIVE_DECIMALS = 18;

const MODES: Readonly<Record<string, string>> = {
  public_paid: "anybody",
  restricted_paid: "whom its contract lets",
  disabled: "nobody",
};
