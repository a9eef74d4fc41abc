// Elements made and changed in place, so that nothing jumps and the focus stays where it is.

/** @param {string} id */
export const $ = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node|string)} children
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Set text only where it differs: a screen reader and a selection notice every change. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Keep the children of a node in step with items, by key.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} key
 * @param {(item: T) => Element} make
 * @param {(node: Element, item: T) => void} update
 */
export function keep(parent, items, key, make, update) {
  const known = new Map([...parent.children].map((child) => [child.getAttribute("data-key"), child]));
  items.forEach((item, index) => {
    const name = key(item);
    let node = known.get(name);
    if (!node) {
      node = make(item);
      node.setAttribute("data-key", name);
    }
    known.delete(name);
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
    update(node, item);
  });
  for (const left of known.values()) left.remove();
}

/**
 * A table: columns say how a row is shown.
 * @param {HTMLElement} table
 * @param {string} caption
 * @param {{name: string, text: (row: any) => string, kind?: string, mark?: (row: any) => string}[]} columns
 * @param {any[]} rows
 * @param {(row: any) => string} key
 */
export function sheet(table, caption, columns, rows, key) {
  if (!table.tHead) {
    table.append(element("caption", { class: "quiet" }, caption));
    const head = element("tr");
    for (const column of columns) head.append(element("th", { scope: "col", class: column.kind ?? "" }, column.name));
    table.append(element("thead", {}, head), element("tbody"));
  }
  table.hidden = rows.length === 0;
  keep(table.tBodies[0], rows, key,
    () => element("tr", {}, ...columns.map((column, index) =>
      element(index ? "td" : "th", { class: column.kind ?? "", ...(index ? {} : { scope: "row" }) }))),
    (line, row) => columns.forEach((column, index) => {
      const cell = line.children[index];
      put(cell, column.text(row));
      const mark = column.mark?.(row) ?? "";
      if (cell.dataset.mark !== mark) cell.dataset.mark = mark;
    }));
}
