"""What can be chosen of a product, and the names of those who make it; the values of an option stand in the order of a page."""

PALETTE = (
    "black",
    "white",
    "navy blue",
    "sky blue",
    "charcoal grey",
    "light grey",
    "forest green",
    "mint green",
    "wine red",
    "cherry red",
    "dark brown",
    "sand beige",
    "blush pink",
    "mustard yellow",
    "lilac purple",
    "burnt orange",
)
BASE_COLOURS = ("black", "white", "blue", "grey", "green", "red", "brown", "beige", "pink", "yellow", "purple", "orange")

OPTIONS: dict[str, tuple[str, ...]] = {
    "color": PALETTE,
    "clothing size": ("x-small", "small", "medium", "large", "x-large", "xx-large", "3x-large"),
    "waist": ("28w x 30l", "30w x 30l", "32w x 32l", "34w x 32l", "36w x 34l", "38w x 34l"),
    "shoe size": ("6", "7", "8", "9", "10", "11", "12"),
    "flavor": ("vanilla", "chocolate", "strawberry", "lemon", "peanut butter", "sea salt", "honey", "cinnamon", "mango", "coconut"),
    "scent": ("lavender", "rose", "citrus", "sandalwood", "fresh linen", "jasmine", "eucalyptus", "unscented"),
    "pack": ("pack of 1", "pack of 2", "pack of 3", "pack of 6", "pack of 12", "pack of 24"),
    "bottle": ("2 fl oz", "4 fl oz", "8 fl oz", "12 fl oz", "16 fl oz"),
    "weight": ("8 ounce", "12 ounce", "1 pound", "2 pound", "5 pound"),
    "cable length": ("3 feet", "6 feet", "10 feet", "15 feet", "25 feet"),
    "storage": ("32 gb", "64 gb", "128 gb", "256 gb", "512 gb"),
    "bed size": ("twin", "full", "queen", "king", "california king"),
    "dimensions": ("16 x 16 inch", "18 x 18 inch", "20 x 20 inch", "24 x 24 inch", "30 x 40 inch", "40 x 60 inch"),
    "finish": ("walnut", "oak", "espresso", "natural pine", "cherry wood", "matte steel"),
}
"""Values of each option; a product has some of them."""

BRAND_STARTS = ("Al", "Bren", "Cor", "Del", "El", "Fen", "Gal", "Har", "Is", "Jun", "Kes", "Lor", "Mar", "Nor", "Or", "Pel", "Quin", "Ros")
BRAND_ENDS = ("vora", "wick", "dane", "mont", "lise", "tano", "brook", "field", "quist", "rell", "sand", "thorn", "vale", "worth")
