import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

type Props = {
  title: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
  isBare?: boolean;
};

/** A section of a page with its heading. With `isBare` the content has no padding, so that a table reaches the card's edges. */
export function Card({ title, tools, children, isBare = false }: Props) {
  const id = useId();
  return (
    <section class="card" aria-labelledby={id}>
      <div class="card-head">
        <h2 id={id}>{title}</h2>
        {tools !== undefined && <div class="card-tools">{tools}</div>}
      </div>
      {isBare ? children : <div class="card-body">{children}</div>}
    </section>
  );
}
