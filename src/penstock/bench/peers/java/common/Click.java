package penstock.peers;

/** A good event with what is known of its user and product, and no more than a session needs. */
public class Click {
    public String userId, page, segment, country, category;
    public long ts;
    public boolean purchase;
    public Double price;

    public static Click of(Event event) {
        Reference.User user = Reference.user(event.userId);
        Click click = new Click();
        click.userId = event.userId;
        click.page = event.page;
        click.segment = user.segment();
        click.country = user.country();
        click.category = Reference.product(event.productId).category();
        click.ts = event.ts;
        click.purchase = event.eventType.equals("purchase");
        click.price = event.price;
        return click;
    }
}
