import { useState } from "preact/hooks";
import { ask, type Refused, toRefused } from "../../api/ask.ts";
import type { AuditRun, AuditTransfer, Payment, TokenAudit } from "../../api/payments.ts";
import { useMayOperate } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { linkTo } from "../../route.ts";
import { amountText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Badge, Empty, Notice } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

/** Whether the chain and the journal say the same: each transfer has its payment, and each payment its transfer. */
export function AuditView() {
  const answer = useAnswer<{ runs: AuditRun[] }>("api/v1/payments/audits", {}, { everyMs: 2000 });
  const [refused, setRefused] = useState<Refused | undefined>();
  const mayOperate = useMayOperate();
  const audit = answer.data?.runs[0];
  const isOpen = audit !== undefined && audit.ended_at === null;
  const run = async () => {
    try {
      await ask("POST", "api/v1/payments/audits", { body: {} });
      setRefused(undefined);
      answer.reload();
    } catch (error) {
      setRefused(toRefused(error));
    }
  };
  return (
    <>
      <WhyNot answer={answer} />
      {refused !== undefined && (
        <Notice tone="bad" title="No audit was begun">
          {refused.detail}
        </Notice>
      )}
      <Card
        title="The last audit"
        tools={
          mayOperate && (
            <button type="button" onClick={run} disabled={isOpen}>
              {isOpen ? "Running" : "Run an audit now"}
            </button>
          )
        }
      >
        {answer.data === undefined && <p class="muted">Loading</p>}
        {answer.data !== undefined && audit === undefined && (
          <Empty title="No audit has run yet">
            It asks the chain for every transfer to you, and matches them with the payments.
          </Empty>
        )}
        {audit !== undefined && (
          <p>
            <Ago at={audit.begun_at} /> by {audit.by}
            {audit.state === "cancelled" && ", cancelled before it had looked at everything"}
          </p>
        )}
        {audit !== undefined && audit.failure !== null && (
          <Notice tone="bad" title="It failed">
            {audit.failure.reason}
          </Notice>
        )}
      </Card>
      {audit?.result?.tokens.map((token) => (
        <TokenCard key={`${token.network} ${token.asset}`} token={token} />
      ))}
    </>
  );
}

function TokenCard({ token }: { token: TokenAudit }) {
  const { symbol, network, from_block, to_block, matched, orphans, unsettled, missing, more } = token;
  const wrong = orphans.length + unsettled.length + missing.length + more;
  return (
    <Card
      title={`${symbol} on ${network}`}
      tools={
        <Badge tone={wrong === 0 ? "good" : "bad"}>
          {wrong === 0 ? "all matches" : counted(wrong, "mismatch", "mismatches")}
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
              ? "no payment can be told from it, so it paid for no job"
              : `payment ${shortened(each.call_id)} is unknown here`}
          </li>
        ))}
        {unsettled.map((each) => (
          <li key={each.transaction}>
            <Badge tone="bad">unsettled</Badge> <Money transfer={each} token={token} />, and the journal says{" "}
            <PaymentLink payment={each.payment} />
          </li>
        ))}
        {missing.map(({ payment }) => (
          <li key={payment.call_id}>
            <Badge tone="bad">missing</Badge> <PaymentLink payment={payment} /> counts as paid, and the chain
            does not show it.
          </li>
        ))}
      </ul>
      {more > 0 && <p class="muted">{counted(more, "more mismatch", "more mismatches")} are not listed.</p>}
    </Card>
  );
}

function Money({ transfer, token }: { transfer: AuditTransfer; token: TokenAudit }) {
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
      <a class="mono" href={linkTo(["payments", call_id])}>
        {shortened(call_id)}
      </a>{" "}
      is {state.replaceAll("_", " ")}
    </>
  );
}
