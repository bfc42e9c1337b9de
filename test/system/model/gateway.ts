import { type Action, chance, step } from "./action.ts";
import type { Protocol } from "./protocol.ts";
import { add, enqueueSettled } from "./queue.ts";
import { type Gateway, isPaid, move, type State, withGateway } from "./state.ts";

type At = Gateway["at"];

/** Actions of one replica that handles one request. Between steps it holds only its current step and the body. */
export function gatewayActions(i: number, protocol: Protocol): Action[] {
  const gateway = (s: State): Gateway => s.gateways[i]!;
  const at = (step: At) => {
    return (s: State): boolean => gateway(s).at === step;
  };
  const to = (s: State, next: At): State => withGateway(s, i, { ...gateway(s), at: next });
  const named = (what: string): string => `gateway ${i + 1}: ${what}`;

  function answer(s: State, status: 202 | 402 | 409 | 503): State {
    const { body } = gateway(s);
    const late = status === 402 && s.dispatched && !(s.past && !isPaid(s));
    const told =
      status === 202 && !s.told202.includes(body) ? [...s.told202, body].sort().join("") : s.told202;
    return { ...to(s, "idle"), told202: told, told402Late: s.told402Late || late };
  }

  /** Answers a payment that is already known, no matter what has changed since. */
  function answerKnown(s: State): State {
    if (protocol.bindsBody && s.recordBody !== gateway(s).body) return answer(s, 409);
    if (s.record === "QUEUED" || s.record === "INJECTED") return answer(s, 202);
    return answer(s, s.record === "VOID" ? 402 : 503);
  }

  const isValid = (s: State): boolean =>
    (s.nonce === "unused" || !protocol.verifyChecksNonce) && s.funds !== "drained" && !s.past;

  const refuse = (s: State): State => (protocol.looksAgainBeforeRefusing ? to(s, "refused") : answer(s, 402));

  function claim(s: State): State {
    if (!protocol.claimsBeforeSettle) return to(s, "claimed");
    if (s.record !== "none" && protocol.claimIsAtomic) return answerKnown(s);
    const paidBeforeClaim = !protocol.readsLogsBeforeClaim && isPaid(s);
    return to({ ...s, record: "SETTLING", recordBody: gateway(s).body, paidBeforeClaim }, "claimed");
  }

  const afterSettle = (s: State): State => {
    if (s.record === "VOID") return answer(s, 503);
    if (protocol.addsAsItSettles) return to(enqueueSettled(s, protocol), "queued");
    return to(move(s, ["SETTLING"], "QUEUED"), "noted");
  };

  const addFirst = step(named("adds the job before settling"), {
    when: at("claimed"),
    does: (s) => to(add(s, gateway(s).body, protocol), "handled"),
  });

  const addAfterwards = step(named("adds the job of the record that it has marked QUEUED"), {
    when: at("noted"),
    does: (s) => to(add(s, s.recordBody, protocol), "queued"),
  });

  return [
    step(named("looks the payment up in the journal"), {
      when: at("received"),
      does: (s) => (s.record === "none" ? to(s, "unknown") : answerKnown(s)),
    }),
    step(named("verify finds the payment valid"), {
      when: (s) => at("unknown")(s) && isValid(s),
      does: (s) => to(s, "verified"),
    }),
    step(named("verify refuses the payment"), {
      when: (s) => at("unknown")(s) && !isValid(s),
      does: refuse,
    }),
    chance(named("a local check refuses, on a clock that may be wrong"), {
      when: at("unknown"),
      does: refuse,
    }),
    step(named("looks the refused payment up again; 402 if it is still unknown"), {
      when: at("refused"),
      does: (s) => (s.record === "none" ? answer(s, 402) : answerKnown(s)),
    }),
    step(named(protocol.claimsBeforeSettle ? "claims the payment with its body" : "claims nothing"), {
      when: at("verified"),
      does: claim,
    }),
    ...(protocol.settlesBeforeAdd ? [] : [addFirst]),
    step(named("sends settle"), {
      when: at(protocol.settlesBeforeAdd ? "claimed" : "handled"),
      does: (s) => to({ ...s, dispatched: true }, "settling"),
    }),
    chance(named("settle answers success"), {
      when: (s) => at("settling")(s) && s.nonce === "paid",
      does: (s) => to(s, "settled"),
    }),
    chance(named("settle answers success:false, which proves nothing"), {
      when: at("settling"),
      does: (s) => answer(s, protocol.successFalseIsUnknown ? 503 : 402),
    }),
    step(named("settle times out, is reset or answers 5xx"), {
      when: at("settling"),
      does: (s) => answer(s, protocol.timeoutIsUnknown ? 503 : 402),
    }),
    step(named("records the settlement"), { when: at("settled"), does: afterSettle }),
    ...(protocol.addsAsItSettles ? [] : [addAfterwards]),
    step(named("answers 202"), { when: at("queued"), does: (s) => answer(s, 202) }),
  ];
}
