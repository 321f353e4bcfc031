"""What hypothesis draws: pods as users write them, well and badly, and policies as clusters configure them."""
