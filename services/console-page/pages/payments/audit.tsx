import type { TokenMatches } from "../../../../shared/console/transfer-matches.ts";
import type { Payment } from "../../api/payments.ts";
import { amountText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { linkTo } from "../../url-fragment.ts";
import { BeginRun, RunState, useMoneyRuns } from "./money-runs.tsx";
import { wordsOf } from "./state-words.ts";

type Transfer = Omit<TokenMatches["orphans"][number], "call_id">;

/** Shows the result of the latest match with the chain: transfers without a known payment, and payments without a transfer. */
export function AuditView() {
  const runs = useMoneyRuns("audit");
  const { newest } = runs;
  const isWhole = newest?.state === "done";
  return (
    <>
      <StaleNotice answer={runs.answer} />
      <Card title="Latest match" tools={<BeginRun runs={runs} verb="Match now" />}>
        {newest === null && (
          <Empty title="Not matched from this page yet">
            A match compares the transfers to your address (<code>pay_to</code>) in the last 50,000 blocks of
            each chain with the payments that Postern knows.
          </Empty>
        )}
        <RunState runs={runs} />
      </Card>
      {newest?.result?.tokens.map((token) => (
        <TokenCard key={`${token.network} ${token.asset}`} token={token} isWhole={isWhole} />
      ))}
    </>
  );
}

function TokenCard({ token, isWhole }: { token: TokenMatches; isWhole: boolean }) {
  const { symbol, network, from_block, to_block, matched } = token;
  const { orphans, unsettled, missing, surplus_refunds: surplus, more } = token;
  const wrong = orphans.length + unsettled.length + missing.length + surplus.length + more;
  return (
    <Card
      title={`${symbol} on ${network}`}
      tools={
        <Badge tone={wrong > 0 ? "bad" : isWhole ? "good" : "neutral"}>
          {wrong > 0 ? counted(wrong, "mismatch", "mismatches") : isWhole ? "all matched" : "incomplete"}
        </Badge>
      }
    >
      <p class="muted">
        Blocks {from_block} to {to_block}: {counted(matched, "transfer")} matched.
      </p>
      <ul class="mismatches">
        {orphans.map((each) => (
          <li key={`${each.transaction} ${each.nonce}`}>
            <Badge tone="bad">orphan</Badge> <Money transfer={each} token={token} />:{" "}
            {each.call_id === null
              ? "it identifies no payment, so it paid for no call"
              : `payment ${shortened(each.call_id)} is unknown`}
          </li>
        ))}
        {unsettled.map((each) => (
          <li key={each.transaction}>
            <Badge tone="bad">unsettled</Badge> <Money transfer={each} token={token} />, but payment{" "}
            <PaymentLink payment={each.payment} />
          </li>
        ))}
        {missing.map(({ payment }) => (
          <li key={payment.call_id}>
            <Badge tone="bad">missing</Badge> payment <PaymentLink payment={payment} />, but the chain shows
            no transfer.
          </li>
        ))}
        {surplus.map((each) => (
          <li key={each.transaction}>
            <Badge tone="bad">surplus refund</Badge> <Money transfer={each} token={token} />: the refund of{" "}
            <CallLink id={each.payment.call_id} /> was{" "}
            {each.payment.state === "refunded" ? "closed by another transfer" : "withdrawn"}.
          </li>
        ))}
      </ul>
      {more > 0 && <p class="muted">{counted(more, "more mismatch", "more mismatches")} not listed.</p>}
    </Card>
  );
}

function Money({ transfer, token }: { transfer: Transfer; token: TokenMatches }) {
  const { transaction, from, amount } = transfer;
  return (
    <>
      {amountText(amount, token.symbol, token.decimals)} from{" "}
      <OnChain kind="address" text={from} network={token.network} /> in{" "}
      <OnChain kind="tx" text={transaction} network={token.network} />
    </>
  );
}

function PaymentLink({ payment: { call_id, state } }: { payment: Payment }) {
  return (
    <>
      <CallLink id={call_id} /> is {wordsOf(state).word}
    </>
  );
}

function CallLink({ id }: { id: string }) {
  return (
    <a class="mono" href={linkTo(["payments", id])}>
      {shortened(id)}
    </a>
  );
}
